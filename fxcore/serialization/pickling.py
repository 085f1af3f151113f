"""A graph as a table of plain data, from which it is built again without running its code."""

from __future__ import annotations

import enum
import functools
import importlib
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from fxcore.codegen.codegen import CodeGen
from fxcore.codegen.pytree_codegen import PyTreeCodeGen, PyTreeInfo
from fxcore.codegen.source_cache import SOURCES
from fxcore.errors import GraphError
from fxcore.graph import Graph
from fxcore.guards import Guard, Guards
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate
from fxcore.node_data.targets import is_from_torch, qualified_name
from fxcore.seams import Seam


class CodeOnlyModule(nn.Module):
    """A module that has the attributes of another and nothing else."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(body)


# Trace `forward` with the given attributes of its module.
RETRACE: Seam[[Callable[..., Any], dict[str, Any]], nn.Module] = Seam()


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """Return the graph module with the attributes in `body`, of which `_code` is the source of its forward.

    `import_block` are the import statements that the source needs.
    """
    names: dict[str, Any] = {}
    SOURCES.run(import_block + (body.get("_code") or body["code"]), names)
    return RETRACE(names["forward"], body)


def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> nn.Module:
    """Return the graph module with the attributes in `body` and the forward of a module in a package."""
    return RETRACE(importer.import_module(generated_module_name).forward, body)


# Operators of torch, which arguments may be too.
_NOT_PICKLABLE = (OpOverload, OpOverloadPacket, HigherOrderOperator)


@dataclass(frozen=True)
class Reference:
    """A value, in the arguments of a node, by its position in the graph."""

    index: int


@dataclass(frozen=True)
class TorchTarget:
    """A function of torch by its full name; such functions often cannot be pickled themselves."""

    name: str


@dataclass(frozen=True)
class NodeRow:
    """One node."""

    name: str
    op: str
    target: Any
    args: Any
    kwargs: Any
    type: Any
    meta: dict[str, Any]


@dataclass(frozen=True)
class GraphTable:
    """All of a graph that outlives a process. `meta` keeps its plain data: texts, numbers, types and nests of them."""

    rows: tuple[NodeRow, ...]
    codegen: CodeGen | None  # None for the ordinary one
    tracer_cls: Any
    tracer_extras: dict[str, Any] | None
    co_fields: dict[str, Any]
    guards: tuple[tuple[Any, ...], ...] = ()
    guard_graph: GraphTable | None = None
    notes: tuple[str, ...] = ()


def table_of(graph: Graph) -> GraphTable:
    """Return `graph` as a table that can be pickled if its targets and constants can."""
    nodes = list(graph.nodes)
    position = {node: Reference(index) for index, node in enumerate(nodes)}
    codegen = graph._codegen
    is_ordinary = type(codegen) is CodeGen and codegen._body_transformer is None
    guards = graph.guards if isinstance(graph.guards, Guards) else Guards()
    return GraphTable(
        rows=tuple([_row(node, position) for node in nodes]),
        codegen=None if is_ordinary else codegen,
        tracer_cls=graph._tracer_cls if is_importable(graph._tracer_cls) else None,
        tracer_extras=graph._tracer_extras,
        co_fields=graph._co_fields,
        guards=tuple([tuple([getattr(guard, item.name) for item in fields(Guard)]) for guard in guards]),
        guard_graph=None if guards.graph is None else table_of(guards.graph),
        notes=guards.notes,
    )


_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "ordered dict": OrderedDict,
    "slice": lambda parts: slice(*parts),
}
_NAMED_IN_TORCH = (torch.dtype, torch.memory_format, torch.layout, torch.qscheme)


def plain_data(table: GraphTable) -> tuple[Any, ...]:
    """Return `table` as tuples, lists and texts, which `torch.load(weights_only=True)` reads without asking.

    Containers and names of importable objects become tuples that begin with a word; other values stay.
    """
    rows = [_plain((row.name, row.op, row.target, row.args, row.kwargs, row.type, row.meta)) for row in table.rows]
    codegen: Any = table.codegen
    if type(codegen) is PyTreeCodeGen and codegen._body_transformer is None:
        codegen = tuple(codegen.pytree_info)
    plain = rows, codegen, table.tracer_cls, table.tracer_extras, table.co_fields
    if table.guard_graph is None:
        return plain
    of_guards = [_plain_items(guard) for guard in table.guards]
    return (*plain, of_guards, plain_data(table.guard_graph), list(table.notes))


def table_of_plain(data: tuple[Any, ...]) -> GraphTable:
    """Return the table that `plain_data` made `data` of. Raises GraphError if a name is not there any more."""
    rows, codegen, tracer_cls, tracer_extras, co_fields, *of_guards = data
    if isinstance(codegen, tuple):
        codegen = PyTreeCodeGen(PyTreeInfo(*codegen))
    table = GraphTable(tuple([NodeRow(*_of_plain(row)) for row in rows]), codegen, tracer_cls, tracer_extras, co_fields)
    if not of_guards:
        return table
    guards = tuple([tuple([_of_plain(item) for item in guard]) for guard in of_guards[0]])
    notes = tuple(of_guards[2]) if len(of_guards) > 2 else ()
    return replace(table, guards=guards, guard_graph=table_of_plain(of_guards[1]), notes=notes)


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        return "reference", value.index
    if isinstance(value, TorchTarget):
        return "torch", value.name
    if value is ...:
        return ("ellipsis",)
    if isinstance(value, _NAMED_IN_TORCH):
        return "torch", str(value)
    if isinstance(value, slice):
        return "slice", _plain_items((value.start, value.stop, value.step))
    if isinstance(value, dict):
        kind = "ordered dict" if isinstance(value, OrderedDict) else "dict"
        return kind, [_plain_items(item) for item in value.items()]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        fields = hasattr(value, "_fields")
        return ("named tuple", _plain(type(value)), _plain_items(value)) if fields else ("tuple", _plain_items(value))
    if isinstance(value, list):
        return "list", _plain_items(value)
    if isinstance(value, enum.Enum):
        return "attribute", _plain(type(value)), value.name
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and is_importable(value):
        return "name", value.__module__, value.__qualname__
    return value


def _plain_items(items: Iterable[Any]) -> list[Any]:
    return [_plain(item) for item in items]


def _of_plain(value: Any) -> Any:
    if not isinstance(value, tuple) or isinstance(value, torch.Size):
        return value
    word, *content = value
    if word == "reference":
        return Reference(content[0])
    if word == "torch":
        return TorchTarget(content[0])
    if word == "ellipsis":
        return ...
    if word == "name":
        return _importable(*content)
    if word == "attribute":
        return getattr(_of_plain(content[0]), content[1])
    if word == "named tuple":
        return _of_plain(content[0])(*map(_of_plain, content[1]))
    if word in ("dict", "ordered dict"):
        return _CONTAINERS[word]([tuple(map(_of_plain, item)) for item in content[0]])
    return _CONTAINERS[word]([_of_plain(item) for item in content[0]])


def _importable(module: str, path: str) -> Any:
    try:
        return functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise GraphError(
            f"cannot rebuild the graph: it refers to {path} of the module {module}, which is not there; install or "
            "restore what the graph was saved with"
        ) from error


def _row(node: Node, position: dict[Node, Reference]) -> NodeRow:
    def stored(leaf: Any) -> Any:
        if isinstance(leaf, Node):
            return position[leaf]
        return TorchTarget(qualified_name(leaf)) if isinstance(leaf, _NOT_PICKLABLE) else leaf

    target: Any = node._target
    if node._op == "call_function" and is_from_torch(target):
        target = TorchTarget(qualified_name(target))
    return NodeRow(
        name=node._name,
        op=node._op,
        target=target,
        args=map_aggregate(node._args, stored),
        kwargs=map_aggregate(node._kwargs, stored),
        type=node._type,
        meta={key: value for key, value in node.meta.items() if _is_plain(value)},
    )


def is_importable(kind: Any) -> bool:
    """Tell whether pickle can refer to a class by its name; each graph module has a class that it cannot."""
    if kind is None:
        return True
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind


def _is_plain(value: Any) -> bool:
    if isinstance(value, (str, int, float, bool, type(None), torch.dtype, torch.device, torch.memory_format)):
        return True
    if isinstance(value, type):
        return is_importable(value)
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, (tuple, list)) and all(_is_plain(item) for item in value)


def graph_from_table(table: GraphTable) -> Graph:
    """Build the graph that `table_of` described. Raises GraphError if a function of torch is not there any more."""
    graph = Graph(tracer_cls=table.tracer_cls, tracer_extras=table.tracer_extras)
    nodes: list[Node] = []

    def resolve(leaf: Any) -> Any:
        if isinstance(leaf, Reference):
            return nodes[leaf.index]
        return _torch_function(leaf.name) if isinstance(leaf, TorchTarget) else leaf

    for row in table.rows:
        args, kwargs = map_aggregate(row.args, resolve), map_aggregate(row.kwargs, resolve)
        node = graph.create_node(row.op, resolve(row.target), args, kwargs, row.name, row.type)
        node.meta = _map_meta(row.meta, resolve)
        nodes.append(node)
    graph._co_fields = table.co_fields
    if table.guard_graph is not None:
        guards = [Guard(*each) for each in table.guards]
        graph.guards = Guards(guards, graph_from_table(table.guard_graph), table.notes)
    if table.codegen is not None:
        graph.set_codegen(table.codegen)
    return graph


def _map_meta(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every leaf of plain data; unlike `map_aggregate`, containers stay what they are."""
    if isinstance(value, dict):
        return type(value)((key, _map_meta(item, fn)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)([_map_meta(item, fn) for item in value])
    return fn(value)


@functools.lru_cache(maxsize=1024)
def _torch_function(name: str) -> Any:
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            raise GraphError(
                f"cannot rebuild the graph: it calls {name}, which torch {torch.__version__} does not have; "
                "load it with the torch that saved it"
            )
    return found
