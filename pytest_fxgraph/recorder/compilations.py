"""The facts of a compilation by Dynamo: the compiled function, its break, guards and recompiles."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import CodeType
from typing import Any

from torch import nn

from fxcore import interop
from pytest_fxgraph.captures.dynamo import break_at, name_inputs, note_shapes
from pytest_fxgraph.captures.guards import guards_of, read_failure
from pytest_fxgraph.captures.places import UserCode, function_name, is_of_torch
from pytest_fxgraph.captures.torch_internals import CompiledFunction, GuardFailure, compiled_function, facts_of
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import CaptureError
from pytest_fxgraph.recorder.kept_graphs import reason_of
from pytest_fxgraph.recorder.user_lines import name_of_model


def has_calls(graph_module: Any) -> bool:
    """Return whether a graph computes anything."""
    return any(node.op not in ("placeholder", "output", "get_attr") for node in graph_module.graph.nodes)


def describe_graph(graph_module: Any) -> GraphDocument:
    """Return the document of a graph of Dynamo or AOT autograd, with the ranges of its symbols."""
    made = interop.from_torch(graph_module)
    with suppress(CaptureError):  # a torch without ranges
        note_shapes(made)
    name_inputs(made)
    return build_document(made, sources=False, graphs={})


def facts_of_function(
    output_graph: Any, recompiled: tuple[Any, list[str]]
) -> tuple[CompiledFunction | None, str, dict[str, Any]]:
    """Return the compiled function, the name of its model, the break that ended the graph, and failed guards.

    `recompiled` is the last result of `recompiles_in`. A part that this torch lacks makes a fact the error's text.
    """
    try:
        function = compiled_function(output_graph)
        failed = recompiled[1] if recompiled[0] is function.code else []
        return function, _name_of(function), {"breaks": _breaks_of(function), "recompiles": failed}
    except Exception as error:
        return None, "", {"breaks": reason_of(error)}


def _name_of(function: CompiledFunction) -> str:
    owner = _model_of(function)
    return name_of_model(owner) if owner is not None else f"{function.module}.{function_name(function.code.co_name)}"


def _model_of(function: CompiledFunction) -> nn.Module | None:
    owner = function.arguments.get(_own_name(function.code))
    return owner if isinstance(owner, nn.Module) else None


def _own_name(code: CodeType) -> str:
    return code.co_varnames[0] if code.co_varnames else ""


def _breaks_of(function: CompiledFunction) -> list[str]:
    reason = function.break_reason
    if reason is None:
        return []
    code = UserCode(_model_of(function))
    frames = [code.place(each.filename, each.lineno, each.name) for each in reason.user_stack]
    return [break_at(reason.reason, tuple(frame for frame in frames if not is_of_torch(frame.file))).text]


def guards_of_compilation(function: CompiledFunction | None, output_graph: Any) -> list[str] | str:
    """Return the values of arguments and attributes that the compiled function relies on, as goldens have them.

    A part that this torch lacks gives the error's text.
    """
    try:
        model, own_name = (None, "") if function is None else (_model_of(function), _own_name(function.code))
        found = [fact for guard in output_graph.guards for fact in facts_of(guard, {})]
        guards = guards_of([fact for fact in found if fact.kind == "value"], model, own_name)
        return sorted(guard.text for guard in guards if guard.kind == "value")
    except Exception as error:
        return reason_of(error)


def recompiles_in(frame: Any, reasons: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the code of a function that is compiled again, and its failed guards."""
    try:
        code = frame.f_code
        place = UserCode(None).place(code.co_filename, code.co_firstlineno, code.co_name)
        found = [read_failure(GuardFailure(code, reason), 0, frame.f_locals, place) for reason in reasons]
        return code, list(dict.fromkeys(each.text.partition(" of ")[2] for each in found))
    except Exception as error:
        return getattr(frame, "f_code", None), [reason_of(error)]
