"""Graphs of torch.fx and torch.export as graphs of fxcore, and back. The one file that imports torch.fx.

Nothing is traced again: nodes are copied one by one, with their names, order, types and meta. Modules, parameters,
buffers and other attributes are shared. There and back is the identity, up to what nothing but a class can hold:
methods of a user's subclass of GraphModule. Graph modules inside other modules stay as they are; they run all the same.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch.fx
import torch.fx.graph
from torch import nn

from fxcore.codegen.codegen import CodeGen
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from fxcore.errors import InteropError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate

# What a graph module keeps about its own graph and code, which the other's constructor makes anew.
_OF_THE_GRAPH = frozenset({"_graph", "_code", "_lineno_map", "_prologue_start", "_tracer_cls", "_tracer_extras"})

_REGISTRIES = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "meta"})

MapLeaves = Callable[[Any, Callable[[Any], Any]], Any]


def from_torch(obj: Any) -> Any:
    """Return the fxcore.Graph or GraphModule that is the same as a graph or graph module of torch.fx.

    A torch.export.ExportedProgram becomes the graph module that takes what its model took, with the model's state.
    Raises InteropError (a TypeError) for anything else.
    """
    if isinstance(obj, torch.fx.Graph):
        return _graph_from_torch(obj)
    if isinstance(obj, torch.fx.GraphModule):
        made = GraphModule({}, Graph(), type(obj).__name__)
        _share_state(obj, made)
        made.graph = _graph_from_torch(obj.graph)
        return made
    if isinstance(obj, torch.export.ExportedProgram):
        return from_torch(_unlifted(obj))
    raise InteropError(
        f"cannot take over an object of type {type(obj).__name__}; "
        "hand over a torch.fx.Graph, a torch.fx.GraphModule or a torch.export.ExportedProgram"
    )


def to_torch(obj: Any) -> Any:
    """Return the torch.fx.Graph or GraphModule that is the same as one of fxcore.

    Raises InteropError (a TypeError) for anything else.
    """
    if isinstance(obj, Graph):
        return _graph_to_torch(obj)
    if isinstance(obj, GraphModule):
        made = torch.fx.GraphModule({}, torch.fx.Graph(), type(obj).__name__)
        _share_state(obj, made)
        made.graph = _graph_to_torch(obj.graph)
        return made
    raise InteropError(
        f"cannot hand over an object of type {type(obj).__name__} to torch.fx; it takes a fxcore.Graph or GraphModule"
    )


def on_torch_graphs(transform: Callable[[GraphModule], Any]) -> Callable[[torch.fx.GraphModule], torch.fx.GraphModule]:
    """Return what does to a graph module of torch.fx what `transform` does to one of fxcore.

    `transform` returns a graph module, or a PassResult, of which the module is taken. The module that is given stays
    as it is if `transform` leaves its own as it is.
    """

    @functools.wraps(transform, updated=())
    def transform_torch_graph(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        result = transform(from_torch(graph_module))
        made: torch.fx.GraphModule = to_torch(getattr(result, "graph_module", result))
        return made

    return transform_torch_graph


def _unlifted(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    # Checks of the inputs would be one more node that the model does not have; older releases made none.
    options = {"check_guards": False} if "check_guards" in inspect.signature(program.module).parameters else {}
    made: Any = program.module(**options)
    if not isinstance(made, torch.fx.GraphModule):
        raise InteropError(f"torch made no graph module of the exported program but a {type(made).__name__}")
    return made


def _share_state(source: nn.Module, made: nn.Module) -> None:
    """Give the new module every attribute of the old one: the same objects, in registries of its own."""
    for name, value in source.__dict__.items():
        if name not in _OF_THE_GRAPH:
            is_registry = name in _REGISTRIES or "_hooks" in name
            made.__dict__[name] = copy.copy(value) if is_registry else value


def _graph_from_torch(graph: torch.fx.Graph) -> Graph:
    made = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    _copy_nodes(graph, made, torch.fx.Node, map_aggregate)
    made._co_fields = dict(getattr(graph, "_co_fields", {}))
    made.set_codegen(_codegen_from_torch(graph._codegen))
    return made


def _graph_to_torch(graph: Graph) -> torch.fx.Graph:
    made = torch.fx.Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    _copy_nodes(graph, made, Node, torch.fx.node.map_aggregate)
    made._co_fields = dict(graph._co_fields)
    made.set_codegen(_codegen_to_torch(graph._codegen))
    return made


def _copy_nodes(source: Any, made: Any, node_type: type, map_leaves: MapLeaves) -> None:
    copies: dict[Any, Any] = {}

    def translate(leaf: Any) -> Any:
        return copies[leaf] if isinstance(leaf, node_type) else leaf

    for node in source.nodes:
        args, kwargs = map_leaves(node.args, translate), map_leaves(node.kwargs, translate)
        duplicate = made.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        if duplicate.name != node.name:
            # A name that was given by hand and that the graph itself would not have chosen.
            made._graph_namespace._rename_object(duplicate, node.name)
            duplicate.name = node.name
        duplicate.meta = copy.copy(node.meta)
        # Further attributes, such as Dynamo's `_dynamo_source`; torch 2.6 keeps a node's own ones there too.
        known = vars(source._root).keys() | vars(duplicate).keys()
        vars(duplicate).update({name: value for name, value in vars(node).items() if name not in known})
        copies[node] = duplicate


class _Delegate:
    """A code generator that asks one of the other package for everything that it writes."""

    original: Any

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> Any:
        """Return the start of the function."""
        return _call(self.original.gen_fn_def, free_vars, maybe_return_annotation, **options)

    def generate_output(self, output_args: Any, *_: Any, **options: Any) -> Any:
        """Return the return statement."""
        return _call(self.original.generate_output, output_args, **options)

    def process_inputs(self, *args: Any) -> Any:
        """Turn what the function takes into what the placeholders take."""
        return self.original.process_inputs(*args)

    def process_outputs(self, outputs: Any) -> Any:
        """Turn what the output node holds into what the function returns."""
        return self.original.process_outputs(outputs)

    def additional_globals(self) -> Any:
        """Return names and objects that the written code refers to."""
        return self.original.additional_globals()


class CodeGenOfTorch(_Delegate, CodeGen):
    """Writes what a code generator of torch.fx writes."""

    def __init__(self, original: torch.fx.graph.CodeGen) -> None:
        super().__init__()
        self.original = original


class CodeGenForTorch(_Delegate, torch.fx.graph.CodeGen):
    """Writes, within torch.fx, what a code generator of fxcore writes."""

    def __init__(self, original: CodeGen) -> None:
        super().__init__()
        self.original = original


def _call(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a method with those options that it takes; they joined the interface with later releases of torch."""
    known = inspect.signature(method).parameters.values()
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        names = {parameter.name for parameter in known}
        options = {name: value for name, value in options.items() if name in names}
    return method(*args, **options)


def _codegen_from_torch(codegen: torch.fx.graph.CodeGen) -> CodeGen:
    if isinstance(codegen, CodeGenForTorch):
        made: CodeGen = codegen.original
    elif type(codegen) is torch.fx.graph.CodeGen:
        made = CodeGen()
    elif type(codegen) is torch.fx.graph._PyTreeCodeGen:
        made = PyTreeCodeGen(PyTreeInfo(*codegen.pytree_info))
    else:
        made = CodeGenOfTorch(codegen)
    _take_settings(codegen, made)
    return made


def _codegen_to_torch(codegen: CodeGen) -> torch.fx.graph.CodeGen:
    if isinstance(codegen, CodeGenOfTorch):
        made: torch.fx.graph.CodeGen = codegen.original
    elif type(codegen) is CodeGen:
        made = torch.fx.graph.CodeGen()
    elif type(codegen) is PyTreeCodeGen:
        made = torch.fx.graph._PyTreeCodeGen(torch.fx.graph._PyTreeInfo(*codegen.pytree_info))
    else:
        made = CodeGenForTorch(codegen)
    _take_settings(codegen, made)
    return made


def _take_settings(codegen: Any, made: Any) -> None:
    for name in ("_body_transformer", "_func_name"):
        if hasattr(codegen, name):
            setattr(made, name, getattr(codegen, name))
