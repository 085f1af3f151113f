"""Graphs of torch.fx and torch.export as graphs of fxcore, and back. The one file that imports torch.fx.

No code is traced again: nodes are copied one by one, with their names, order, types and meta. Modules, parameters,
buffers and other attributes are shared. There and back is the identity, the class of the graph module included. Inner
graph modules are shared, too; with `nested=True` they are converted.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

import torch.fx
import torch.fx.graph
import torch.fx.proxy
from torch import nn
from torch.export.unflatten import UnflattenedModule

from fxcore.codegen.codegen import CodeGen, call_with_known
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from fxcore.errors import InteropError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.guard_checks.guarded_forward import GuardedForward
from fxcore.guards import Guards
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate
from fxcore.node_data.distributed_types import is_reduction, reduction_source
from fxcore.proxy import TracerBase
from fxcore.serialization.pickling import is_importable

# A graph module keeps these facts about its own graph and code, and the other constructor makes them anew. Unflattened
# modules have a graph, and a graph module of it, in their dict.
_OF_THE_GRAPH = frozenset(
    {"_graph", "_code", "_lineno_map", "_prologue_start", "_tracer_cls", "_tracer_extras", "graph", "graph_module"}
)
_REGISTRIES = frozenset({"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "meta"})
# A graph module notes here the facts that exist on the other side alone: its class, its tracer.
_NOTES = "_across_interop"
# Metadata that holds nodes deeper inside than this stays as it is.
_DEEPEST_META = 6

MapLeaves = Callable[[Any, Callable[[Any], Any]], Any]


def from_torch(obj: Any, *, nested: bool = False) -> Any:
    """Return a graph or graph module of torch.fx as an fxcore.Graph or GraphModule.

    A torch.export.ExportedProgram becomes a graph module with the inputs and the state of its model, and so does the
    result of torch.export.unflatten. Inner graph modules (branches, loop bodies, modules of an unflattened one) stay
    modules of torch.fx and are shared. With `nested` they are converted too, so that passes of fxcore can enter them.
    Raises InteropError (a TypeError) for any other object.
    """
    if isinstance(obj, torch.fx.Graph):
        return _graph_from_torch(obj)
    if isinstance(obj, torch.fx.GraphModule):
        return _with_nested(obj, torch.fx.GraphModule, _module_from_torch) if nested else _module_from_torch(obj)
    if isinstance(obj, torch.export.ExportedProgram):
        return from_torch(_unlifted(obj), nested=nested)
    if isinstance(obj, UnflattenedModule):
        return _unflattened_from_torch(obj)
    raise InteropError(
        f"cannot take over an object of type {type(obj).__name__}; "
        "hand over a torch.fx.Graph, a torch.fx.GraphModule, a torch.export.ExportedProgram "
        "or what torch.export.unflatten makes of one"
    )


def to_torch(obj: Any, *, nested: bool = False) -> Any:
    """Return a graph or graph module of fxcore as a torch.fx.Graph or GraphModule.

    Inner graph modules of fxcore are shared, and they run inside a module of torch.fx. torch's passes that enter them,
    and torch's operators that interpret them, need `nested`. Raises InteropError (a TypeError) for any other object.
    """
    if isinstance(obj, Graph):
        return _graph_to_torch(obj)
    if isinstance(obj, GraphModule):
        return _with_nested(obj, GraphModule, _module_to_torch) if nested else _module_to_torch(obj)
    raise InteropError(
        f"cannot hand over an object of type {type(obj).__name__} to torch.fx; it takes a fxcore.Graph or GraphModule"
    )


def on_torch_graphs(
    transform: Callable[[GraphModule], Any], *, nested: bool = False
) -> Callable[[torch.fx.GraphModule], torch.fx.GraphModule]:
    """Return a function that applies `transform`, a transform for fxcore, to graph modules of torch.fx.

    `transform` returns a graph module, or a PassResult with a graph module. The given module of torch.fx stays
    unchanged if `transform` leaves its argument unchanged. With `nested`, inner graph modules are fxcore's, too.
    """

    @functools.wraps(transform, updated=())
    def transform_torch_graph(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        result = transform(from_torch(graph_module, nested=nested))
        made: torch.fx.GraphModule = to_torch(getattr(result, "graph_module", result), nested=nested)
        return made

    return transform_torch_graph


# Modules.


def _unlifted(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    # With checks of the inputs the graph would have one more node than the model; older releases of torch made no
    # checks.
    options = {"check_guards": False} if "check_guards" in inspect.signature(program.module).parameters else {}
    made: Any = program.module(**options)
    if not isinstance(made, torch.fx.GraphModule):
        raise InteropError(f"torch made no graph module of the exported program but a {type(made).__name__}")
    return made


def _module_from_torch(source: torch.fx.GraphModule) -> GraphModule:
    base = _notes_of(source).get("class", GraphModule)
    made: GraphModule = base.__new__(base)
    GraphModule.__init__(made, {}, Graph(), type(source).__name__)
    _share_state(source, made, torch.fx.GraphModule)
    made.graph = _graph_from_torch(source.graph)
    _note_tracer(made, source, TracerBase)
    return made


class GuardedGraphModule(torch.fx.GraphModule):
    """A graph module of torch.fx whose calls check the guards of a graph that was traced with an example."""

    def recompile(self) -> Any:
        """Renew `code` and `forward` from the current graph. The checks are in `forward` alone."""
        code = super().recompile()
        try:
            graph = _graph_from_torch(self._graph)
        except InteropError:  # in the middle of an edit; torch writes code for such a graph, too
            return code
        if isinstance(graph.guards, Guards) and graph.guards.are_enforced and graph.guards.are_checked:
            guarded = GuardedForward(graph, graph.guards, self, graph.python_code("self"))
            type(self).forward = guarded.function
        return code

    def __deepcopy__(self, memo: Any) -> Any:
        copied: Any = super().__deepcopy__(memo)
        _share_attributes(self._graph, copied._graph)  # torch copies no attribute of a graph
        copied.recompile()
        return copied

    def __copy__(self) -> Any:
        copied = GuardedGraphModule(self, self.graph)
        copied.meta = getattr(self, "meta", {})
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return to_torch, (from_torch(self),)


def _module_to_torch(source: GraphModule) -> torch.fx.GraphModule:
    guards = source.graph.guards
    is_guarded = isinstance(guards, Guards) and guards.are_enforced and guards.are_checked
    base = _notes_of(source).get("class", GuardedGraphModule if is_guarded else torch.fx.GraphModule)
    made: torch.fx.GraphModule = base.__new__(base)
    torch.fx.GraphModule.__init__(made, {}, torch.fx.Graph(), type(source).__name__)
    _share_state(source, made, GraphModule)
    made.graph = _graph_to_torch(source.graph)
    _note_tracer(made, source, torch.fx.proxy.TracerBase)
    return made


def _notes_of(source: nn.Module) -> dict[str, Any]:
    return vars(source).get(_NOTES) or {}


def _note_tracer(made: Any, source: nn.Module, kind: type) -> None:
    """Record the tracer class on the module, as the constructor does. Skip a class that belongs to the other library.

    torch.fx and torch.package trace again with it when they load a module.
    """
    tracer = _notes_of(source).get("tracer", made.graph._tracer_cls)
    if isinstance(tracer, type) and issubclass(tracer, kind) and "<locals>" not in tracer.__qualname__:
        vars(made).update(_tracer_cls=tracer, _tracer_extras=made.graph._tracer_extras or {})


def _unflattened_from_torch(source: UnflattenedModule) -> GraphModule:
    """Return a graph module with the inputs of an unflattened module; the unflattened module's own modules stay."""
    made = GraphModule({}, Graph(), type(source).__name__)
    _share_state(source, made, UnflattenedModule)
    graph = _graph_from_torch(source.graph)
    signature: Any = source.module_call_graph[0].signature
    args, kwargs = signature.in_spec.children_specs
    names = getattr(signature, "forward_arg_names", None) or [
        *(f"arg_{place}" for place in range(args.num_children)),
        *kwargs.context,
    ]
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(list(names), signature.in_spec, signature.out_spec)))
    made.graph = graph
    return made


def _share_state(source: nn.Module, made: nn.Module, plain: type) -> None:
    """Give the new module every attribute of the old one: the same objects, in registries of its own."""

    def rebound(value: Any) -> Any:
        # A method that was put on the instance, such as the `train` of an exported module, must work on the new module.
        is_own = isinstance(value, MethodType) and value.__self__ is source
        return MethodType(value.__func__, made) if is_own else value

    for name, value in vars(source).items():
        if name in _OF_THE_GRAPH or name == _NOTES or (name == "shape_env" and value is None):
            continue  # the last name is a slot that torch's constructor makes
        if name in _REGISTRIES or "_hooks" in name:
            if not value and name not in vars(made):
                continue  # a kind of hooks that this torch does not know
            value = copy.copy(value)
            for key in value if isinstance(value, dict) else ():
                value[key] = rebound(value[key])
        vars(made)[name] = rebound(value)
    base, tracer = type(source).__mro__[1], vars(source).get("_tracer_cls")
    is_special = issubclass(base, plain) and base not in (plain, GuardedGraphModule)
    notes = {"class": base} if is_special and is_importable(base) else {}
    if tracer is not None and tracer is not getattr(source.graph, "_tracer_cls", None) and is_importable(tracer):
        notes["tracer"] = tracer
    if notes:
        vars(made)[_NOTES] = notes


def _with_nested(root: nn.Module, kind: type[nn.Module], convert: Callable[[Any], nn.Module]) -> nn.Module:
    """Convert a graph module and the graph modules in it. Copy modules on the way to them, and share all others."""
    converted: dict[int, nn.Module] = {}

    def of(module: nn.Module) -> nn.Module:
        known = converted.get(id(module))
        if known is not None:
            return known
        if isinstance(module, kind):
            made = convert(module)
        elif any(isinstance(inner, kind) for inner in module.modules()):
            made = copy.copy(module)
            made._modules = module._modules.copy()
        else:
            return module
        converted[id(module)] = made
        for name, child in list(made._modules.items()):
            made._modules[name] = None if child is None else of(child)
        return made

    return of(root)


# Graphs.


def _graph_from_torch(graph: torch.fx.Graph) -> Graph:
    made = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    _copy_graph(graph, made, torch.fx.Node, map_aggregate)
    names, known = made._graph_namespace, graph._graph_namespace
    names._used |= known._used_names
    names._last_number.update(known._base_count)
    made.set_codegen(_codegen_from_torch(graph._codegen))
    return made


def _graph_to_torch(graph: Graph) -> torch.fx.Graph:
    made = torch.fx.Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    _copy_graph(graph, made, Node, torch.fx.node.map_aggregate)
    names, known = made._graph_namespace, graph._graph_namespace
    names._used_names |= known._used
    names._base_count.update(known._last_number)
    made.set_codegen(_codegen_to_torch(graph._codegen, has_reductions=bool(_reductions_of(graph.nodes))))
    return made


def _share_attributes(source: Any, made: Any) -> None:
    """Give the new graph the attributes that users set on the old graph, and the guards, which torch.fx lacks."""
    known = (vars(type(source)()).keys() | vars(made).keys()) - {"guards", "_moved_values"}
    vars(made).update({name: value for name, value in vars(source).items() if name not in known})


def _copy_graph(source: Any, made: Any, node_type: type, map_leaves: MapLeaves) -> None:
    copies: dict[Any, Any] = {}

    def translate(leaf: Any) -> Any:
        if not isinstance(leaf, node_type):
            return leaf
        if leaf not in copies:
            raise InteropError(
                f"cannot copy the graph: node {node.name!r} reads {leaf!r}, "
                "which does not come before it in this graph; put the nodes in order, and call lint() to find others"
            )
        return copies[leaf]

    for node in source.nodes:
        args, kwargs = map_leaves(node.args, translate), map_leaves(node.kwargs, translate)
        duplicate = made.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        if duplicate.name != node.name:
            # A user chose this name. The graph itself would have chosen another name.
            made._graph_namespace._rename_object(duplicate, node.name)
            duplicate.name = node.name
        # Further attributes, such as Dynamo's `_dynamo_source`. torch 2.6 keeps a node's own attributes there too.
        known = vars(source._root).keys() | vars(duplicate).keys()
        vars(duplicate).update({name: value for name, value in vars(node).items() if name not in known})
        copies[node] = duplicate
    for node, duplicate in copies.items():
        duplicate.meta = {key: _meta_of(value, copies, node_type) for key, value in node.meta.items()}
        duplicate.users.clear()  # keep the order of the readers: edits may have changed it
        duplicate.users.update({copies[user]: None for user in node.users})
    _share_attributes(source, made)
    made._co_fields = dict(getattr(source, "_co_fields", {}))


def _meta_of(value: Any, copies: dict[Any, Any], node_type: type, depth: int = 0) -> Any:
    """Return metadata that refers to the new nodes. Values without nodes stay the same objects."""

    def inside(parts: Iterable[Any]) -> list[Any]:
        return [_meta_of(part, copies, node_type, depth + 1) for part in parts]

    if isinstance(value, node_type):
        return copies.get(value, value)
    if depth > _DEEPEST_META:
        return value
    if isinstance(value, dict):
        keys, values = inside(value), inside(value.values())
        if _are_same(keys, value) and _are_same(values, value.values()):
            return value
        made = copy.copy(value)
        made.clear()
        made.update(zip(keys, values, strict=True))
        return made
    if isinstance(value, (list, tuple, set)):
        parts = inside(value)
        if _are_same(parts, value):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
        before = [getattr(value, name) for name in names]
        after = inside(before)
        if _are_same(after, before):
            return value
        replaced: Any = copy.copy(value)
        for name, part in zip(names, after, strict=True):
            object.__setattr__(replaced, name, part)  # it may be frozen
        return replaced
    return value


def _are_same(obtained: Iterable[Any], expected: Iterable[Any]) -> bool:
    return all(map(operator.is_, obtained, expected))


# Code generators.


class _Delegate:
    """A code generator that delegates to a code generator of the other package."""

    def __init__(self, original: Any) -> None:
        super().__init__()
        self.original = original

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> Any:
        """Return the start of the function."""
        return call_with_known(self.original.gen_fn_def, free_vars, maybe_return_annotation, **options)

    def generate_output(self, output_args: Any, *_: Any, **options: Any) -> Any:
        """Return the return statement."""
        return call_with_known(self.original.generate_output, output_args, **options)

    def process_inputs(self, *args: Any) -> Any:
        """Turn the arguments of the function into the values of the placeholders."""
        return self.original.process_inputs(*args)

    def process_outputs(self, outputs: Any) -> Any:
        """Turn the values of the output node into the result of the function."""
        return self.original.process_outputs(outputs)

    def additional_globals(self) -> Any:
        """Return the names and objects that the generated code refers to."""
        return self.original.additional_globals()


class CodeGenOfTorch(_Delegate, CodeGen):
    """Writes the same code as a code generator of torch.fx."""


class _Reductions:
    """A code generator for torch.fx that can write reductions, such as `ReduceOp.SUM`, as Python.

    torch.fx itself writes `<RedOpType.SUM: 0>`, a syntax error.
    """

    def _gen_python_code(self, nodes: Any, *args: Any, **options: Any) -> Any:
        written = super()._gen_python_code(nodes, *args, **options)  # type: ignore[misc]  # beside a CodeGen
        for reduction in _reductions_of(nodes):
            written.src = written.src.replace(repr(reduction), reduction_source(reduction))
        return written


def _reductions_of(nodes: Iterable[Any]) -> list[Any]:
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        if is_reduction(leaf):
            found.append(leaf)
        return leaf

    for node in nodes:
        map_aggregate((node.args, node.kwargs), note)
    return found


class PlainCodeGenWithReductions(_Reductions, torch.fx.graph.CodeGen):
    """Writes a graph with these arguments for torch.fx."""


class PyTreeCodeGenWithReductions(_Reductions, torch.fx.graph._PyTreeCodeGen):
    """Writes a graph with these arguments, and with nested inputs and outputs, for torch.fx."""


class CodeGenForTorch(_Reductions, _Delegate, torch.fx.graph.CodeGen):
    """Writes, within torch.fx, the same code as a code generator of fxcore."""


def _codegen_from_torch(codegen: torch.fx.graph.CodeGen) -> CodeGen:
    if isinstance(codegen, CodeGenForTorch):
        made: CodeGen = codegen.original
    elif type(codegen) in (torch.fx.graph.CodeGen, PlainCodeGenWithReductions):
        made = CodeGen()
    elif isinstance(codegen, PyTreeCodeGenWithReductions) or type(codegen) is torch.fx.graph._PyTreeCodeGen:
        made = PyTreeCodeGen(PyTreeInfo(*codegen.pytree_info))
    else:
        made = CodeGenOfTorch(codegen)
    _take_settings(codegen, made)
    return made


def _codegen_to_torch(codegen: CodeGen, *, has_reductions: bool) -> torch.fx.graph.CodeGen:
    if isinstance(codegen, CodeGenOfTorch):
        made: torch.fx.graph.CodeGen = codegen.original
    elif type(codegen) is CodeGen:
        made = PlainCodeGenWithReductions() if has_reductions else torch.fx.graph.CodeGen()
    elif type(codegen) is PyTreeCodeGen:
        kind = PyTreeCodeGenWithReductions if has_reductions else torch.fx.graph._PyTreeCodeGen
        made = kind(torch.fx.graph._PyTreeInfo(*codegen.pytree_info))
    else:
        made = CodeGenForTorch(codegen)
    _take_settings(codegen, made)
    return made


def _take_settings(codegen: Any, made: Any) -> None:
    for name in ("_body_transformer", "_func_name"):
        if hasattr(codegen, name):
            setattr(made, name, getattr(codegen, name))
