"""Models that cannot be traced, and the message of a failed trace: the model, the line of the user's code, why."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

import fxcore
from fxcore.guided.inputs import copied_example
from fxcore.state.snapshot import state_kept
from pytest_fxgraph.errors import CaptureError

_SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
# Lines of these packages are never the user's.
_PACKAGES = tuple(
    os.path.dirname(os.path.abspath(home)) + os.sep
    for home in (os.path.dirname(__file__), str(fxcore.__file__), torch.__file__)
)
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep


def refuse_untraceable(model: Any) -> None:
    """Raise CaptureError for a scripted or compiled model."""
    if isinstance(model, _SCRIPTED):
        name = getattr(model, "original_name", None) or getattr(model, "name", None) or name_of(model)
        raise CaptureError(
            f"cannot trace {name}: it is scripted, so that its Python code is gone; "
            "hand over the model that torch.jit.script or torch.jit.trace was given"
        )
    if _is_compiled(model):
        original = "model._orig_mod" if isinstance(model, nn.Module) else "the function that torch.compile was given"
        name = name_of(getattr(model, "_orig_mod", model))
        raise CaptureError(
            f"cannot trace {name}: torch.compile compiled it, and what runs is no longer its code; "
            f"hand over the model from before, {original}"
        )


def refuse_untraceable_parts(model: Any) -> None:
    """Raise CaptureError if a module inside a model is compiled, or lazy and without parameters yet.

    To be called after a failure only: a graph that calls a lazy module as one node is right.
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
    """Return whether torch.compile made a model or function. Looks at names: an import of Dynamo takes a second."""
    if isinstance(model, nn.Module):
        return "_orig_mod" in model._modules and type(model).__name__ == "OptimizedModule"
    return callable(getattr(model, "_torchdynamo_orig_callable", None))


def describe_failure(model: Any, error: BaseException, example: Mapping[str, Any] | None = None) -> str:
    """Return the message for an error while a model was traced: the model, the reason, the line of the user's code.

    With an example, the message also lists all other places that cannot be traced.
    """
    failure = failure_of_model(model, example) if example else None
    if failure is not None:
        return f"cannot trace {name_of(model)}: the model itself does not run on the example inputs: {failure}"
    obstacles = _all_obstacles(model, example) if example else []
    return "\n".join([f"cannot trace {name_of(model)}: {_reason_and_line(model, error)}", *obstacles])


def failure_of_model(model: Any, example: Mapping[str, Any]) -> str | None:
    """Return the error that the model itself raises on an example, and its place. No other frontend would help there.

    Return None if the model runs, or does not take these arguments.
    """
    args, kwargs = copied_example((example["example_inputs"], dict(example["example_kwargs"] or {})))
    try:
        with state_kept(model, parameters=True):
            model(*args, **kwargs)
    except TypeError as error:
        return None if "argument" in str(error) else _reason_and_line(model, error)
    except Exception as error:
        return _reason_and_line(model, error)
    return None


def _reason_and_line(model: Any, error: BaseException) -> str:
    line = _users_line(model, error)
    place = f"\n  {short_path(line.filename)}:{line.lineno}, in {line.name}: {line.line}" if line is not None else ""
    return f"{_reason(error)}{place}"


def _all_obstacles(model: Any, example: Mapping[str, Any]) -> list[str]:
    """Return lines that list all places that cannot be traced, if there are at least two."""
    try:
        found = fxcore.diagnose(model, example["example_inputs"], example["example_kwargs"])
    except Exception:  # the model itself fails on the example; the caller has reported that
        return []
    if len(found.obstacles) < 2:
        return []
    lines = [f"  {line}" for line in str(found).splitlines()]
    return [f"all {len(found.obstacles)} places that stand in the way:", *lines]


def name_of(model: Any) -> str:
    """Return the name of a model in messages: the class of a module, the qualified name of a function."""
    if isinstance(model, nn.Module):
        return type(model).__name__
    return str(getattr(model, "__qualname__", None) or type(model).__name__)


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    # Errors of fxcore are complete sentences. Python's errors need their class ("KeyError: 'x'").
    if isinstance(error, fxcore.FxError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _users_line(model: Any, error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost line in a file that defines the model, or else in any file of the user."""
    lines = [line for line in traceback.extract_tb(error.__traceback__) if is_users_file(line.filename)]
    files = set(_files_of(model))
    of_model = [line for line in lines if line.filename in files]
    chosen = of_model or lines
    return chosen[-1] if chosen else None


@functools.lru_cache(maxsize=1024)
def is_users_file(filename: str) -> bool:
    """Return whether a file is the user's: not of these packages, of torch or of Python, and not generated."""
    path = os.path.abspath(filename)
    if path.startswith(_PACKAGES) or filename.startswith("<"):
        return False
    return not path.startswith(_STANDARD) or "site-packages" in path


def _files_of(model: Any) -> Iterator[str]:
    if isinstance(model, nn.Module):
        for module in model.modules():
            home = getattr(sys.modules.get(type(module).__module__), "__file__", None)
            if home is not None and is_users_file(home):
                yield home
    code = getattr(model, "__code__", None)
    if code is not None:
        yield code.co_filename


def short_path(filename: str) -> str:
    """Return a path relative to the working directory if it lies below it, else the absolute path."""
    path = os.path.abspath(filename)
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
