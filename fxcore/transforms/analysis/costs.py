"""The costs of a graph: floating-point operations, bytes moved and parameters, of each node and each module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

import torch
from torch import nn

from fxcore.node import Node
from fxcore.passes.tools_common import CALLABLE_NODE_OPS
from fxcore.transforms.analysis.flop_formulas import FORMULAS, flops_of_call
from fxcore.transforms.analysis.operator_names import is_in_place
from fxcore.transforms.analysis.values import GraphValues, OperatorCall, Propagation, TensorSpec, propagate, tensors_in

# These operators read no more of their first argument than they write.
_GATHERS = frozenset({"embedding", "embeddingbag", "indexselect", "index", "gather", "getitem", "take", "takealongdim",
                      "slice", "select", "narrowcopy", "maskedselect"})  # fmt: skip
# These operators look at the shape of their argument alone.
_CREATES = frozenset(
    {"emptylike", "fulllike", "newempty", "newemptystrided", "newfull", "newones", "newtensor", "newzeros"}
    | {"oneslike", "randintlike", "randlike", "randnlike", "zeroslike"}
)
_NEVER_WRITTEN = frozenset({"empty", "emptylike", "emptystrided", "newempty", "newemptystrided"})
_EXPORT_ROOT = re.compile(r"L\[['\"]\w+['\"]\]\.?|L__\w+?___?")


@dataclass(frozen=True)
class Cost:
    """The cost of one node, or of several nodes together."""

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    params: int = 0  # parameter elements, each counted at its first read
    nodes: int = 0  # calls

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte moved; 0 without bytes."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Cost)))


@dataclass(frozen=True)
class NodeCost:
    """The cost of one node, with its operator and its module."""

    node: Node
    operator: str  # as formulas know it
    module: str  # path of the module that made it in its forward, or that it calls; "" for the outermost
    cost: Cost
    uncounted: tuple[str, ...] = ()  # operators without a formula for floating-point operations


@dataclass(frozen=True)
class GraphCosts:
    """The costs of a graph, node by node in the order of execution."""

    values: GraphValues
    nodes: tuple[NodeCost, ...]

    @property
    def total(self) -> Cost:
        """The cost of the whole graph."""
        return sum((each.cost for each in self.nodes), Cost())

    @property
    def by_module(self) -> dict[str, Cost]:
        """The cost of the nodes of each module, without modules inside it, in the order of execution."""
        return summed((each.module, each.cost) for each in self.nodes)

    @property
    def by_module_and_inside(self) -> dict[str, Cost]:
        """The cost of each module with everything inside it. The outermost module has the path ""."""
        found = []
        for path, cost in self.by_module.items():
            found.append(("", cost))
            found += [(outer, cost) for outer in accumulate(path.split("."), "{}.{}".format) if outer]
        return summed(found)

    @property
    def uncounted(self) -> tuple[str, ...]:
        """The operators without a formula for floating-point operations; they count 0."""
        return tuple(sorted({name for each in self.nodes for name in each.uncounted}))

    def table(self) -> str:
        """Write a table, a line a module and one for the whole."""
        return cost_table([*((path or "(root)", cost) for path, cost in self.by_module.items()), ("total", self.total)])


def summed(costs: Iterable[tuple[str, Cost]]) -> dict[str, Cost]:
    """Add the costs of each name, in the order of the first of each."""
    found: dict[str, Cost] = {}
    for name, cost in costs:
        found[name] = found.get(name, Cost()) + cost
    return found


def graph_costs(module: nn.Module, *args: Any, propagation: Propagation = "meta") -> GraphCosts:
    """Return the cost of a graph module's graph on arguments. Only shapes are computed, and nothing changes.

    Raises InterpreterError (a RuntimeError) if the graph does not run on them.
    """
    return costs_of_values(propagate(module, *args, propagation=propagation, knows=FORMULAS.__contains__))


def costs_of_values(values: GraphValues) -> GraphCosts:
    """Return the cost of a graph from the shapes of its values."""
    counted: set[int] = set()  # parameters that an earlier node read
    calls = [node for node in values.graph.nodes if node.op in CALLABLE_NODE_OPS]
    return GraphCosts(values, tuple([_node_cost(node, values, counted) for node in calls]))


def module_path(node: Node) -> str:
    """Return the path of the module that a node calls, or of the running module that made it; "" for the outermost."""
    if node.op == "call_module":
        return str(node.target)
    stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    for key, entry in reversed(list(stack.items())):
        path = entry[0] if isinstance(entry, tuple) and entry and isinstance(entry[0], str) else str(key)
        return _EXPORT_ROOT.sub("", path)
    return ""


def cost_table(rows: Iterable[tuple[str, Cost]]) -> str:
    """Write costs as a table with a line each."""
    head = ("module", "FLOPs", "read", "written", "FLOPs/byte", "params", "nodes")
    lines: list[tuple[str, ...]] = [head]
    for name, cost in rows:
        counts = (f"{count:,}" for count in (cost.flops, cost.bytes_read, cost.bytes_written))
        lines.append((name, *counts, f"{cost.intensity:.2f}", f"{cost.params:,}", str(cost.nodes)))
    return aligned(lines)


def aligned(rows: Iterable[tuple[str, ...]]) -> str:
    """Write rows in columns, the first to the left and the others to the right."""
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in lines
    )


def _node_cost(node: Node, values: GraphValues, counted: set[int]) -> NodeCost:
    call = values.call(node)
    flops, uncounted = _flops(call, values.inner_calls.get(node, ()))
    read, written = _bytes(node, call, values)
    params = _new_parameters(node, values, counted)
    return NodeCost(node, call.name, module_path(node), Cost(flops, read, written, params, 1), uncounted)


def _flops(call: OperatorCall, inner: Iterable[OperatorCall]) -> tuple[int, tuple[str, ...]]:
    """Return the operations of a call, or of the calls inside it, and the operators without a formula."""
    own = flops_of_call(call)
    if own is not None:
        return own, ()
    counts = [(each.name, flops_of_call(each)) for each in inner]
    unknown = {name for name, count in counts if count is None}
    return sum(count or 0 for _, count in counts), tuple(sorted(unknown))


def _bytes(node: Node, call: OperatorCall, values: GraphValues) -> tuple[int, int]:
    """Return the bytes that a call reads and writes, each tensor once, as if nothing stayed in a cache."""
    given = [spec for part in (call.args, call.kwargs) for spec in tensors_in(part)]
    results = tensors_in(call.result)
    if call.name == "setitem":
        stored = _nbytes(tensors_in(call.args[2]))
        return stored, stored
    if not results:
        return (_nbytes(given), 0) if call.name in ("item", "tolist", "localscalardense") else (0, 0)
    known = {spec.storage for spec in given}
    new = [spec for spec in results if spec.storage not in known]
    if not new and not is_in_place(node, call.module):
        return 0, 0  # views, and operators that return their argument
    written = 0 if call.name in _NEVER_WRITTEN else _nbytes(new or results)
    state = _state_read(call, values)
    if call.name in _CREATES:
        return 0, written
    if call.name in _GATHERS:
        # The source is the largest argument, at any position.
        source, *others = sorted(dict.fromkeys([*given, *state]), key=lambda spec: -spec.nbytes)
        return min(written, source.nbytes) + _nbytes(others), written
    return _nbytes([*given, *state]), written


def _state_read(call: OperatorCall, values: GraphValues) -> list[TensorSpec]:
    """Return the parameters and buffers that a called module reads: all it has but the counter of a batch norm."""
    if call.module is None:
        return []
    buffers = [buffer for name, buffer in call.module.named_buffers() if not name.endswith("num_batches_tracked")]
    tensors = [*call.module.parameters(), *buffers]
    specs = [values.state_specs[id(tensor)] for tensor in tensors if id(tensor) in values.state_specs]
    return specs + [spec for part in call.module.modules() for spec in values.packed_specs.get(id(part), ())]


def _nbytes(specs: Iterable[TensorSpec]) -> int:
    return sum(spec.nbytes for spec in dict.fromkeys(specs))


def _new_parameters(node: Node, values: GraphValues, counted: set[int]) -> int:
    """Return the elements of parameters that a node is the first to read."""
    found = 0
    for tensor in parameters_read(node, values):
        if id(tensor) not in counted:
            counted.add(id(tensor))
            found += tensor.numel()
    for part in values.modules[node.target].modules() if node.op == "call_module" else ():
        if id(part) in values.packed_specs and id(part) not in counted:
            counted.add(id(part))
            found += sum(spec.numel for spec in values.packed_specs[id(part)])
    return found


def parameters_read(node: Node, values: GraphValues) -> Iterator[torch.Tensor]:
    """Yield the parameters that a node reads: of the module that it calls, and among its arguments."""
    if node.op == "call_module":
        yield from values.modules[node.target].parameters()
    for reader in node.all_input_nodes:
        if reader.op == "get_attr":
            owner, _, name = str(reader.target).rpartition(".")
            found = getattr(values.modules.get(owner), name, None)
            if isinstance(found, nn.Parameter):
                yield found
