"""A graph as plain data, built again from it without running its code."""

from __future__ import annotations

import enum
import functools
import pkgutil
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
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
from fxcore.node_data.targets import is_from_torch, qualified_name
from fxcore.nodes.moved_values import MovedValues
from fxcore.operators.higher_order import missing_operator
from fxcore.seams import Seam


class CodeOnlyModule(nn.Module):
    """A module with the attributes of another module and nothing else."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(body)


# Traces `forward` with the given attributes of its module. The tracing file, a higher one, fills the seam.
RETRACE: Seam[[Callable[..., Any], dict[str, Any]], nn.Module] = Seam()


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """Return the graph module with the attributes in `body`; its `_code` is the source of the forward.

    `import_block` holds the import statements that the source needs.
    """
    names: dict[str, Any] = {}
    SOURCES.run(import_block + (body.get("_code") or body["code"]), names)
    return RETRACE(names["forward"], body)


def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> nn.Module:
    """Return the graph module with the attributes in `body` and the forward of a module in a package."""
    return RETRACE(importer.import_module(generated_module_name).forward, body)


_OPERATORS = (OpOverload, OpOverloadPacket, HigherOrderOperator)
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "ordered dict": OrderedDict,
    "slice": lambda parts: slice(*parts),
}
_NAMED_IN_TORCH = (torch.dtype, torch.memory_format, torch.layout, torch.qscheme)
_GUARD_FIELDS = tuple(Guard.__annotations__)


def graph_data(graph: Graph) -> tuple[Any, ...]:
    """Return `graph` as tuples, lists and texts, which `torch.load(weights_only=True)` reads without asking.

    Containers, nodes and names of importable objects become tuples that begin with a word; other values stay. Of the
    metadata only plain data is kept: texts, numbers, types and nests of them.
    """
    nodes = list(graph.nodes)
    positions = {node: index for index, node in enumerate(nodes)}
    codegen: Any = graph._codegen
    if codegen._body_transformer is None and type(codegen) in (CodeGen, PyTreeCodeGen):
        codegen = tuple(codegen.pytree_info) if type(codegen) is PyTreeCodeGen else None
    data = (
        [_row(node, positions) for node in nodes],
        codegen,
        graph._tracer_cls if is_importable(graph._tracer_cls) else None,
        graph._tracer_extras,
        graph._co_fields,
    )
    guards = graph.guards
    if not isinstance(guards, Guards) or guards.graph is None:
        return data
    of_guards = [[_plain(getattr(guard, name), {}) for name in _GUARD_FIELDS] for guard in guards]
    return (
        *data,
        of_guards,
        graph_data(guards.graph),
        list(guards.notes),
        guards.are_enforced,
        dict(graph.moved_values.names),
    )


def graph_from_data(data: tuple[Any, ...]) -> Graph:
    """Build the graph that `graph_data` described. Raises GraphError if a name in it does not exist any more."""
    rows, codegen, tracer_cls, tracer_extras, co_fields, *of_guards = data
    graph = Graph(tracer_cls=tracer_cls, tracer_extras=tracer_extras)
    nodes: list[Node] = []
    for row in rows:
        name, op, target, args, kwargs, type_expr, meta = _of_plain(row, nodes)
        node = graph.create_node(op, target, args, kwargs, name, type_expr)
        node.meta = meta
        nodes.append(node)
    graph._co_fields = co_fields
    if of_guards:
        guards = [Guard(*[_of_plain(item, []) for item in guard]) for guard in of_guards[0]]
        _, conditions, notes, are_enforced, moved = of_guards
        graph.guards = Guards(guards, graph_from_data(conditions), notes, are_enforced=are_enforced)
        graph._moved_values = MovedValues(moved)
    if codegen is not None:
        graph.set_codegen(PyTreeCodeGen(PyTreeInfo(*codegen)) if isinstance(codegen, tuple) else codegen)
    return graph


def _row(node: Node, positions: dict[Node, int]) -> tuple[Any, ...]:
    target: Any = node._target
    is_of_torch = node._op == "call_function" and is_from_torch(target)
    meta = {key: value for key, value in node.meta.items() if _is_plain(value)}
    parts = [node._name, node._op, target, node._args, node._kwargs, node._type, meta]
    plain = [_plain(part, positions) for part in parts]
    if is_of_torch:  # such functions often cannot be pickled themselves
        plain[2] = "torch", qualified_name(target)
    return "tuple", plain


def _plain(value: Any, positions: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return "reference", positions[value]
    if isinstance(value, _OPERATORS):
        return "torch", qualified_name(value)
    if value is ...:
        return ("ellipsis",)
    if isinstance(value, _NAMED_IN_TORCH):
        return "torch", str(value)
    if isinstance(value, enum.Enum):
        return "attribute", _plain(type(value), positions), value.name
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and is_importable(value):
        return "name", value.__module__, value.__qualname__
    items: Iterable[Any]
    if isinstance(value, slice):
        kind, items = "slice", (value.start, value.stop, value.step)
    elif isinstance(value, dict):
        kind = "ordered dict" if isinstance(value, OrderedDict) else "dict"
        return kind, [[_plain(key, positions), _plain(item, positions)] for key, item in value.items()]
    elif isinstance(value, list) or (isinstance(value, tuple) and not isinstance(value, torch.Size)):
        kind, items = "list" if isinstance(value, list) else "tuple", value
    else:
        return value
    content = [_plain(item, positions) for item in items]
    is_named = kind == "tuple" and hasattr(value, "_fields")
    return ("named tuple", _plain(type(value), positions), content) if is_named else (kind, content)


def _of_plain(value: Any, nodes: list[Node]) -> Any:
    if not isinstance(value, tuple) or isinstance(value, torch.Size):
        return value
    word, *content = value
    if word == "reference":
        return nodes[content[0]]
    if word == "torch":
        return _torch_function(content[0])
    if word == "ellipsis":
        return ...
    if word == "name":
        return _importable(*content)
    if word == "attribute":
        return getattr(_of_plain(content[0], nodes), content[1])
    if word in ("dict", "ordered dict"):
        return _CONTAINERS[word]([[_of_plain(part, nodes) for part in item] for item in content[0]])
    items = [_of_plain(item, nodes) for item in content[-1]]
    return _of_plain(content[0], nodes)(*items) if word == "named tuple" else _CONTAINERS[word](items)


def _importable(module: str, path: str) -> Any:
    try:
        return pkgutil.resolve_name(f"{module}:{path}")
    except (ImportError, AttributeError) as error:
        raise GraphError(
            f"cannot rebuild the graph: it refers to {path} of the module {module}, which is not there; install or "
            "restore what the graph was saved with"
        ) from error


def is_importable(kind: Any) -> bool:
    """Return whether pickle can refer to a class by its name. Each graph module has a class without such a name."""
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


@functools.lru_cache(maxsize=1024)
def _torch_function(name: str) -> Any:
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            missing = missing_operator(name)
            raise GraphError(
                f"cannot rebuild the graph: it calls {name}, which torch {torch.__version__} does not have; "
                + (f"{missing}; " if missing else "")
                + "load it with the torch that saved it"
            )
    return found
