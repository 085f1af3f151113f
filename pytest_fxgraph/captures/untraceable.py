"""Models that have no Python code to trace, each refused with its own words."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from pytest_fxgraph.captures.tracing_failure import name_of
from pytest_fxgraph.errors import CaptureError

_SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)


def refuse_untraceable(model: Any) -> None:
    """Raise CaptureError for a scripted or compiled model."""
    if isinstance(model, _SCRIPTED):
        raise CaptureError(
            f"cannot trace {_scripted_name(model)}: it is scripted, so that its Python code is gone; "
            "hand over the model that torch.jit.script or torch.jit.trace was given"
        )
    if _is_compiled(model):
        original = "model._orig_mod" if isinstance(model, nn.Module) else "the function that torch.compile was given"
        raise CaptureError(
            f"cannot trace {_original_name(model)}: torch.compile compiled it, and what runs is no longer its code; "
            f"hand over the model from before, {original}"
        )


def refuse_untraceable_parts(model: Any) -> None:
    """Raise CaptureError if a module inside a model is compiled, or lazy and without parameters yet.

    To be asked when something failed: a graph that only calls a lazy module is no failure.
    """
    for path, module in model.named_modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():  # type: ignore[misc]  # it is one
            place = f"its module {path!r}, a {type(module).__name__}," if path else "it"
            raise CaptureError(
                f"cannot trace {name_of(model)}: {place} is lazy and has no parameters before its first call; "
                "run the model once, with inputs as it will get, and trace it then"
            )
        if path and _is_compiled(module):
            raise CaptureError(
                f"cannot trace {name_of(model)}: its module {path!r} was compiled by torch.compile; "
                f"put the one from before in its place, {path}._orig_mod"
            )


def _is_compiled(model: Any) -> bool:
    """Tell whether torch.compile made a model or function; by names, as importing Dynamo to ask takes a second."""
    if isinstance(model, nn.Module):
        return "_orig_mod" in model._modules and type(model).__name__ == "OptimizedModule"
    return callable(getattr(model, "_torchdynamo_orig_callable", None))


def _original_name(model: Any) -> str:
    return name_of(model._orig_mod if isinstance(model, nn.Module) else model)


def _scripted_name(model: Any) -> str:
    return str(getattr(model, "original_name", None) or getattr(model, "name", None) or name_of(model))
