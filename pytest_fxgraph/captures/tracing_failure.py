"""The message of a failed trace: which model, at which line of the user's code, why."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

import fxcore
from fxcore.guided.inputs import copied_example
from fxcore.model_state import state_kept
from pytest_fxgraph.rng import generators_kept

# Lines of these packages are never the user's.
_PACKAGES = tuple(
    os.path.dirname(os.path.abspath(home)) + os.sep
    for home in (os.path.dirname(__file__), str(fxcore.__file__), torch.__file__)
)
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep


def describe_failure(model: Any, error: BaseException, example: Mapping[str, Any] | None = None) -> str:
    """Return the message for an error that was raised while tracing a model: model, reason, line of the user's code.

    With an example, all other places that stand in the way are told, too.
    """
    failure = failure_of_model(model, example) if example else None
    if failure is not None:
        return f"cannot trace {name_of(model)}: the model itself does not run on the example inputs: {failure}"
    lines = [f"cannot trace {name_of(model)}: {_reason(error)}"]
    line = _users_line(model, error)
    if line is not None:
        lines.insert(1, f"  {short_path(line.filename)}:{line.lineno}, in {line.name}: {line.line}")
    if example:
        lines += _all_obstacles(model, example)
    return "\n".join(lines)


def failure_of_model(model: Any, example: Mapping[str, Any]) -> str | None:
    """Return what the model itself raises on an example, and where; no other way to trace it would mend that.

    None if it runs, and for arguments that it does not take.
    """
    args, kwargs = copied_example((example["example_inputs"], dict(example["example_kwargs"] or {})))
    try:
        with generators_kept(), state_kept(model if isinstance(model, nn.Module) else nn.Module(), ()):
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
    """Return the lines that list all that stands in the way, if it is more than one place."""
    try:
        found = fxcore.diagnose(model, example["example_inputs"], example["example_kwargs"])
    except Exception:  # the model itself fails on the example, and that has been said
        return []
    if len(found.obstacles) < 2:
        return []
    return [
        f"all {len(found.obstacles)} places that stand in the way:",
        *(f"  {line}" for line in str(found).splitlines()),
    ]


def name_of(model: Any) -> str:
    """Return the name of a model in messages: the class of a module, the qualified name of a function."""
    if isinstance(model, nn.Module):
        return type(model).__name__
    return str(getattr(model, "__qualname__", None) or type(model).__name__)


def _reason(error: BaseException) -> str:
    text = str(error).strip()
    # The errors of fxcore say everything themselves; those of Python need their class ("KeyError: 'x'").
    if isinstance(error, fxcore.FxError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _users_line(model: Any, error: BaseException) -> traceback.FrameSummary | None:
    """Find the innermost line in a file that defines the model, else the innermost in any file of the user's."""
    lines = [line for line in traceback.extract_tb(error.__traceback__) if _is_users_file(line.filename)]
    files = set(_files_of(model))
    of_model = [line for line in lines if line.filename in files]
    chosen = of_model or lines
    return chosen[-1] if chosen else None


def _is_users_file(filename: str) -> bool:
    path = os.path.abspath(filename)
    if path.startswith(_PACKAGES) or filename.startswith("<"):
        return False
    return not path.startswith(_STANDARD) or "site-packages" in path


def _files_of(model: Any) -> Iterator[str]:
    if isinstance(model, nn.Module):
        for module in model.modules():
            home = getattr(sys.modules.get(type(module).__module__), "__file__", None)
            if home is not None and _is_users_file(home):
                yield home
    code = getattr(model, "__code__", None)
    if code is not None:
        yield code.co_filename


def short_path(filename: str) -> str:
    """Return a path relative to the working directory if it lies below that, else the absolute path."""
    path = os.path.abspath(filename)
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
