"""Refusals of a model's own code: `raise` and `assert` statements, and `torch._assert` and `torch._check`."""

from __future__ import annotations

import dis
import os
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

from torch import nn

from pytest_fxgraph.captures.tracing_failure import is_users_file

# Functions of torch that raise if the caller's condition is not true.
_CHECKS_OF_TORCH = ("_assert", "_check")


def own_refusal(error: BaseException, model: Any) -> str | None:
    """Return the place of the model's own check that raised an error, `net.py:12`; None for any other error.

    An operator that cannot compute with an input checks nothing on behalf of the model, and neither does a library
    between model and operator. The statement must stand in a package that defines a module of the model.
    """
    steps = list(_steps(error.__traceback__))
    is_check = len(steps) > 1 and _is_check_of_torch(steps[-1].tb_frame)
    while len(steps) > 1 and _is_check_of_torch(steps[-1].tb_frame):
        steps.pop()
    if not steps:
        return None
    last = steps[-1]
    code = last.tb_frame.f_code
    is_statement = is_check or _raises(code, last.tb_lasti)
    is_of_user = is_users_file(code.co_filename) and _package(last.tb_frame.f_globals) in _packages(model)
    return f"{os.path.basename(code.co_filename)}:{last.tb_lineno}" if is_statement and is_of_user else None


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the steps of a traceback, the innermost last."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_check_of_torch(frame: FrameType) -> bool:
    return _package(frame.f_globals) == "torch" and frame.f_code.co_name.startswith(_CHECKS_OF_TORCH)


def _raises(code: CodeType, instruction: int) -> bool:
    return dis.opname[code.co_code[instruction]] == "RAISE_VARARGS"


def _package(names: Any) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


def _packages(model: Any) -> set[str]:
    modules = model.modules() if isinstance(model, nn.Module) else ()
    named = [type(module).__module__ for module in modules] or [str(getattr(model, "__module__", ""))]
    return {name.partition(".")[0] for name in named} - {"torch"}


def has_checks_elsewhere(graph: Any) -> bool:
    """Return whether the conditions of a graph are not in the graph: Dynamo keeps them, or guards are not enforced."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    guards = getattr(getattr(graph, "graph", None), "guards", ())
    is_of_dynamo = any("example_value" in node.meta for node in nodes)
    return is_of_dynamo or (bool(guards) and not getattr(guards, "are_enforced", False))
