"""Subjects: the objects that a fixture or function accepts where it takes a graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any
from unittest.mock import patch

from torch import nn

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.capture import JoinedGraphs
from pytest_fxgraph.captures.onnx_graphs import onnx_graph
from pytest_fxgraph.captures.tracing import TracedGraph, trace, trace_for_inputs, trace_to_read
from pytest_fxgraph.document.exported_ranges import RANGES
from pytest_fxgraph.errors import ArchiveError, SubjectError
from pytest_fxgraph.goldens.archive_entries import ONNX_SUFFIX, check_archive, is_model_path

# Calls the pytest_fxgraph_adapt hooks with an object; returns None if no hook knows it.
Adapter = Callable[[Any], Any]

_GRAPH_MODULE, _GRAPH = "torch.fx.graph_module.GraphModule", "torch.fx.graph.Graph"
_EXPORTED = "torch.export.exported_program.ExportedProgram"
# Modules of torch.export whose forward interprets a graph.
_INTERPRETED = ("torch.export.unflatten.UnflattenedModule", "torch.export.unflatten.InterpreterModule")


def to_graph_module(
    subject: Any,
    adapt: Adapter | None = None,
    *,
    example_inputs: object = None,
    example_kwargs: Mapping[str, Any] | None = None,
) -> fxcore.GraphModule:
    """Return the graph of a subject: a graph as it is or converted from torch.fx, or the trace of a module or function.

    A model that cannot be traced without an example is traced with this one, and the trace is compared with the model.
    A GraphModule of fxcore is returned itself, not a copy. Raises SubjectError (a TypeError) for an object that is no
    subject, CaptureError if tracing fails.
    """
    found = _graph_or_model(subject, adapt)
    if isinstance(found, fxcore.GraphModule):
        return found
    if example_inputs is None and not example_kwargs:
        return trace(found)
    return trace_for_inputs(found, example_inputs, example_kwargs, verify=True)


def to_graph_with_operators(subject: Any, adapt: Adapter | None = None, **example: Any) -> Any:
    """Return the graph of a subject for questions about its operators. `example` is that of `to_graph_module`.

    The graph of an exported program stays as it is: its parameters are inputs, and checks of inputs are not added.
    """
    if adapt is None or adapt(subject) is None:
        subject = only_program(subject)
    if _is_one_of(subject, _EXPORTED):
        return interop.from_torch(subject.graph_module)
    return to_graph_module(subject, adapt, **example)


def to_readable_graph(subject: Any, adapt: Adapter | None = None) -> TracedGraph:
    """Return the graph of a subject as `to_graph_module` does, but only to be read. This is twice as fast."""
    found = _graph_or_model(subject, adapt)
    return TracedGraph(found.graph, found) if isinstance(found, fxcore.GraphModule) else trace_to_read(found)


def _graph_or_model(subject: Any, adapt: Adapter | None) -> Any:
    """Return the graph module of a subject, or the module or function to trace."""
    made = _as_graph(subject)
    if made is not None:
        return made
    adapted = adapt(subject) if adapt is not None else None
    if adapted is not None and adapted is not subject:
        return _graph_or_model(adapted, None)
    program = only_program(subject)
    if program is not subject:
        return _graph_or_model(program, None)
    if isinstance(subject, type):
        raise SubjectError(f"the class {subject.__qualname__} is no subject; hand over an instance of it")
    if isinstance(subject, nn.Module) or callable(subject):
        return subject
    raise SubjectError(
        f"an object of {type(subject).__module__}.{type(subject).__qualname__} is no subject; "
        "expected a torch.nn.Module, a function, a Graph or GraphModule of fxcore or torch.fx, "
        "a torch.export.ExportedProgram, a manager or dict of these, the path of a .pt2 or .onnx file, a Capture, "
        "or something that a pytest_fxgraph_adapt hook turns into one of these"
    )


def programs_of(subject: Any) -> dict[str, Any] | None:
    """Return the programs of a subject by name, in the order of their names; None for a subject that is one graph.

    A subject with programs is a dict, or has `methods` and `exported_program(name)`, as executorch's EdgeProgramManager
    has. Raises SubjectError (a TypeError) for a set without a program, or with names that are no texts.
    """
    if isinstance(subject, Mapping):
        programs = dict(subject)
    elif hasattr(type(subject), "methods") and callable(getattr(subject, "exported_program", None)):
        methods = subject.methods() if callable(subject.methods) else subject.methods
        programs = {name: subject.exported_program(name) for name in methods}
    else:
        return None
    if not programs:
        raise SubjectError(f"a {type(subject).__name__} without a program is no subject: there would be no golden")
    if not all(isinstance(name, str) for name in programs):
        raise SubjectError(
            f"a {type(subject).__name__} is a subject if its keys are names of programs, got {next(iter(programs))!r}"
        )
    return {name: programs[name] for name in sorted(programs)}


def only_program(subject: Any) -> Any:
    """Return the program of a set with one program, or of a `.pt2` or `.onnx` file, and any other subject as it is.

    Raises SubjectError for a set of several programs; the message names the way to one of them. Raises ArchiveError as
    `loaded_program` does.
    """
    if isinstance(subject, nn.Module) and not hasattr(type(subject), "methods"):  # nearly always
        return subject
    if is_model_path(subject):
        return loaded_program(subject)
    programs = programs_of(subject)
    if programs is None:
        return subject
    if len(programs) > 1:
        first, kind = next(iter(programs)), type(subject).__name__
        one = f"[{first!r}]" if isinstance(subject, Mapping) else f".exported_program({first!r})"
        raise SubjectError(
            f"a {kind} with {len(programs)} programs ({', '.join(programs)}) is no single graph; hand over one of "
            f"them: {one}. Only goldens and transforms take all programs at once"
        )
    return next(iter(programs.values()))


def loaded_program(
    path: str | os.PathLike[str],
    *,
    trusts: bool = False,
    remedy: str = "if you trust its author, load it by torch.export.load, and hand over the program",
) -> Any:
    """Return the exported program of a `.pt2` file, or the graph of a `.onnx` file.

    Raises ArchiveError if torch cannot load the file; and without `trusts`, with `remedy` as the next step, if torch
    would execute a part of it. Pickles of tensors are then loaded by torch's unpickler for weights alone.
    """
    if os.fspath(path).endswith(ONNX_SUFFIX):
        return onnx_graph(path)
    check_archive(Path(path), trusts=trusts, remedy=remedy)
    import torch.export  # takes a second

    # torch.export.load tries a second time where torch.load refuses a pickle that names functions.
    weights_only = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}
    with patch.dict(os.environ, {} if trusts else weights_only):
        try:
            return torch.export.load(os.fspath(path))
        except Exception as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise ArchiveError(
                f"cannot read {path}: torch {torch.__version__} does not load it: {reason}; load it by the release of "
                "torch that saved it, and save it by this one"
            ) from error


def model_of(subject: Any, adapt: Adapter | None = None) -> Any:
    """Return the eager model: a module or function as it is, the program of a file, else what an adapter makes.

    Raises ArchiveError as `loaded_program` does.
    """
    if is_model_path(subject):
        return loaded_program(subject)
    if adapt is None or isinstance(subject, (nn.Module, FunctionType, MethodType)) or is_exported_program(subject):
        return subject
    adapted = adapt(subject)
    return subject if adapted is None else adapted


def is_model(subject: Any, adapt: Adapter | None = None) -> bool:
    """Return whether a subject is a module or function without a graph, so that a frontend can make one."""
    if isinstance(subject, fxcore.GraphModule | type) or not (isinstance(subject, nn.Module) or callable(subject)):
        return False
    if isinstance(subject, JoinedGraphs) or _is_one_of(subject, _GRAPH_MODULE, _GRAPH, _EXPORTED, *_INTERPRETED):
        return False
    adapted = adapt(subject) if adapt is not None else None
    return adapted is None or adapted is subject


def is_exported_program(subject: object) -> bool:
    """Return whether a subject is an ExportedProgram of torch.export."""
    return _is_one_of(subject, _EXPORTED)


def is_torch_graph_module(subject: object) -> bool:
    """Return whether a subject is a GraphModule of torch.fx."""
    return _is_one_of(subject, _GRAPH_MODULE)


def is_graph(subject: object) -> bool:
    """Return whether a subject is a Graph without its module, of fxcore or of torch.fx."""
    return isinstance(subject, fxcore.Graph) or _is_one_of(subject, _GRAPH)


def _as_graph(subject: Any) -> fxcore.GraphModule | None:
    if isinstance(subject, fxcore.GraphModule):
        return subject
    if isinstance(subject, fxcore.Graph):
        return _module_around(subject)
    if isinstance(subject, JoinedGraphs):
        return subject.as_graph_module()
    if _is_one_of(subject, *_INTERPRETED):
        return fxcore.GraphModule(subject, interop.from_torch(subject.graph))
    if _is_one_of(subject, _GRAPH_MODULE, _GRAPH, _EXPORTED):
        owner = getattr(subject, "owning_module", None)
        is_of_owner = getattr(owner, "graph", None) is subject
        converted = interop.from_torch(owner if is_of_owner else subject)
        if isinstance(converted, fxcore.GraphModule) and _is_one_of(subject, _EXPORTED):
            converted.meta[RANGES] = dict(subject.range_constraints)
        return converted if isinstance(converted, fxcore.GraphModule) else _module_around(converted)
    return None


def _is_one_of(subject: Any, *classes: str) -> bool:
    # By name: isinstance needs an import of torch.fx and torch.export, which takes a second in runs without them.
    return any(f"{base.__module__}.{base.__qualname__}" in classes for base in type(subject).__mro__)


def _module_around(graph: fxcore.Graph) -> fxcore.GraphModule:
    """Return the module that owns a graph, or a new one with an UnknownModule at each path that the graph names."""
    owner = graph.owning_module
    if isinstance(owner, fxcore.GraphModule) and owner.graph is graph:
        return owner
    return fxcore.GraphModule(_unknown_modules_of(graph), graph)


class UnknownModule(nn.Module):
    """Stands for a module that a graph names, where the graph came without its modules."""


# Documents contain the class's name, so the name must not change with this file's.
UnknownModule.__module__ = "pytest_fxgraph"


def _unknown_modules_of(graph: fxcore.Graph) -> nn.Module:
    root = UnknownModule()
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            place: nn.Module = root
            for name in str(node.target).split("."):
                if name not in place._modules:
                    place.add_module(name, UnknownModule())
                place = place.get_submodule(name)
    return root


class FunctionModule(nn.Module):
    """A function as a module, because torch.export takes modules only."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)
