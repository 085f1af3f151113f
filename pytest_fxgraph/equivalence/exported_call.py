"""Calls of an exported program with the inputs of its model, with its state inside, or with another graph."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.captures.subjects import (
    Adapter,
    is_exported_program,
    is_graph,
    is_torch_graph_module,
    to_graph_module,
)
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.report.printable import counted, listed

_LIFTED = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR", "CUSTOM_OBJ", "TOKEN")  # kinds of inputs that no caller gives
_NAMES_OF_LIFTED = ("p_", "b_", "c_", "obj_", "token")  # the beginnings of their names in torch.export


def called_as_module(subject: Any) -> Any:
    """Return the callable of a subject: the module of an exported program, the owner of a graph, or the subject itself.

    The module shares all tensors with the program. Raises SubjectError for a graph that needs modules without an owner.
    """
    if is_exported_program(subject):
        return subject.module()
    return owner_of(subject) if is_graph(subject) else subject


def owner_of(graph: Any) -> Any:
    """Return the graph module that a graph belongs to, or one made around a graph that needs no modules.

    Raises SubjectError if the graph has no owner and names modules or attributes, because only an owner has them.
    """
    owner = graph.owning_module
    if owner is not None and getattr(owner, "graph", None) is graph:
        return owner
    named = next((node for node in graph.nodes if node.op in ("call_module", "get_attr")), None)
    if named is not None:
        raise SubjectError(
            f"cannot run a graph without its module: {named.name} needs {named.target!r}; "
            "hand over the graph module that the graph belongs to"
        )
    if isinstance(graph, fxcore.Graph):
        return fxcore.GraphModule({}, graph)
    return torch.fx.GraphModule({}, graph)


def called_graph(graph: Any, model: Any, arguments: Arguments, adapt: Adapter | None = None) -> fxcore.GraphModule:
    """Return the graph that a model is compared with, to be called with the model's arguments.

    The graph module of an exported program takes parameters as inputs, and only the program knows them. The graph gets
    the parameters of the model: an exported program, or a module that is exported here. Raises SubjectError if the
    graph does not belong to that program, and the errors of `to_graph_module`.
    """
    lifted = lifted_inputs(graph, arguments)
    if not lifted and not _is_flat(graph):
        return to_graph_module(graph, adapt)
    if lifted and is_exported_program(model):
        return to_graph_module(with_graph_module(model, graph))
    for program in [model] if is_exported_program(model) else _programs_of(model, arguments):
        names = [spec.arg.name for spec in program.graph_signature.input_specs]
        if names == [node.name for node in graph.graph.nodes if node.op == "placeholder"]:
            with contextlib.suppress(SubjectError):
                return to_graph_module(with_graph_module(program, graph))
    if not lifted:
        return to_graph_module(graph, adapt)
    raise SubjectError(
        f"{_lifted_message(lifted, arguments)}, and the model, when it is exported, has others. Hand over the program "
        "as the graph (graph=program), or as the model beside its changed graph module"
    )


def _is_flat(graph: Any) -> bool:
    """Return whether a graph may belong to a program without state: its inputs have fake values, it returns a tuple."""
    if not is_torch_graph_module(graph) or type(graph.graph._codegen) is not torch.fx.graph.CodeGen:
        return False
    *_, output = graph.graph.nodes
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return isinstance(output.args[0], (tuple, list)) and all("val" in node.meta for node in placeholders)


def _programs_of(model: Any, arguments: Arguments) -> Iterator[Any]:
    """Yield the programs that a module may have been exported to: with writes, and without writes."""
    if not isinstance(model, nn.Module):
        return
    with contextlib.suppress(Exception):  # the caller reports a model that cannot be exported
        program = torch.export.export(model, arguments.args, arguments.kwargs, strict=False)
        yield program
        yield program.run_decompositions()


def refuse_lifted(model: Any, arguments: Arguments) -> None:
    """Raise SubjectError for the graph module of an exported program that is to be called with user inputs alone."""
    lifted = lifted_inputs(model, arguments)
    if lifted:
        raise SubjectError(f"{_lifted_message(lifted, arguments)}. Hand over the program itself")


def lifted_inputs(graph_module: Any, arguments: Arguments) -> list[str]:
    """List the first inputs of a graph module that hold lifted state, if there are more inputs than arguments."""
    if not is_torch_graph_module(graph_module):
        return []
    names = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    lifted = [name for name in names if name.startswith(_NAMES_OF_LIFTED)]
    return lifted if len(names) > _count(arguments) and lifted == names[: len(lifted)] else []


def _count(arguments: Arguments) -> int:
    return len(arguments.args) + len(arguments.kwargs)


def _lifted_message(lifted: list[str], arguments: Arguments) -> str:
    given = counted(_count(arguments), "input")
    return (
        f"cannot call the graph module of an exported program with {given}: the first {len(lifted)} that it takes "
        f"({listed(lifted, 3)}) are parameters, buffers and constants, which the program has"
    )


def user_inputs(program: Any) -> list[str]:
    """List the names of the inputs of a program's graph that a caller gives."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name not in _LIFTED]


def with_graph_module(program: Any, graph_module: Any) -> Any:
    """Return a program like another, with a graph module that a pass made of its graph, and the signature to match.

    Inputs are matched by name if the pass removed inputs, else by place. Outputs are matched by place. State is shared.
    Raises SubjectError if the graph has inputs or outputs that the signature does not know.
    """
    made = copy.copy(program)
    made._graph_module = graph_module
    made._graph_signature = _signature_for(program.graph_signature, graph_module.graph)
    return made


def _signature_for(signature: Any, graph: Any) -> Any:
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    outputs = next(node for node in reversed(graph.nodes) if node.op == "output").args[0]
    names = [node.name for node in placeholders]
    specs = _specs_of(signature.input_specs, names)
    values = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
    if len(values) != len(signature.output_specs):
        raise SubjectError(
            f"the graph has {len(values)} outputs and the signature of its program {len(signature.output_specs)}; "
            "a pass that changes them has to return an ExportedProgram whose graph_signature says so"
        )
    renamed = {spec.arg.name: name for spec, name in zip(specs, names, strict=True)}
    made = copy.copy(signature)
    made.input_specs = [_named(spec, name) for spec, name in zip(specs, names, strict=True)]
    made.output_specs = [
        _named(spec, getattr(value, "name", None), renamed)
        for spec, value in zip(signature.output_specs, values, strict=True)
    ]
    return made


def _specs_of(specs: Sequence[Any], names: list[str]) -> list[Any]:
    known = [spec.arg.name for spec in specs]
    if len(names) == len(known):
        return list(specs)
    kept = [spec for spec in specs if spec.arg.name in names]
    if [spec.arg.name for spec in kept] == names:
        return kept
    unknown = [name for name in names if name not in known]
    raise SubjectError(
        f"the graph has {len(names)} inputs and the signature of its program {len(known)}"
        + (f", which knows no {', '.join(unknown)}" if unknown else ", in another order")
        + "; a pass that changes them has to return an ExportedProgram whose graph_signature says so"
    )


def _named(spec: Any, name: str | None, renamed: dict[str, str] | None = None) -> Any:
    """Return a copy of the specification of an input or output for a node of this name."""
    made = copy.copy(spec)
    made.arg = copy.copy(spec.arg)
    if name is not None and hasattr(made.arg, "name"):
        made.arg.name = name
    if renamed and spec.kind.name == "USER_INPUT_MUTATION":
        made.target = renamed.get(spec.target, spec.target)
    return made
