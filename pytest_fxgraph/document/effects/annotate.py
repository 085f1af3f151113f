"""The effects of all nodes of a graph, as a document words them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import torch

from fxcore.operators.table import facts_of_name
from pytest_fxgraph.document.effects.profiles import (
    PLAIN,
    ArgumentPlace,
    OperatorEffects,
    function_effects,
    holds,
    method_effects,
    module_effects,
)
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.module_traits import CalledModule


class SharedStorage:
    """Positions of nodes in disjoint sets of those that may share storage; the first position names each set."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def first(self, position: int) -> int:
        """Give the first node that may share storage with the one at a position."""
        parent = self._parent
        while parent[position] != position:
            parent[position] = parent[parent[position]]
            position = parent[position]
        return position

    def join(self, position: int, other: int) -> None:
        """Note that two nodes may share storage."""
        one, two = self.first(position), self.first(other)
        # The earlier one names the set, so that the name stays when more is joined.
        if one < two:
            self._parent[two] = one
        else:
            self._parent[one] = two


Finder = Callable[[str], Any]

_ENDS = ("placeholder", "output")
_WITHOUT_EFFECTS = (*_ENDS, "get_attr")
_SEQUENCES = (list, tuple)
_NOTHING: Set[int] = frozenset()


class EffectTexts:
    """Finds the effects of nodes. `attribute` looks up what a path names in the graph's module."""

    def __init__(self, node_type: type | None, attribute: Finder, called: Mapping[str, CalledModule]) -> None:
        self._node_type = node_type
        self._attribute = attribute
        self._called = called
        self._known: dict[tuple[str, str], OperatorEffects] = {}

    def of(self, nodes: Sequence[Any], ops: Sequence[str], targets: Sequence[str]) -> list[tuple[str, ...]]:
        """Give the effects of each node, whose opcodes and named targets are known already."""
        known = self._known
        all_effects: list[OperatorEffects] = []
        kinds: list[tuple[str, ...]] = []
        written: dict[int, list[Any]] = {}
        changes_state = False
        for position, (node, op, target) in enumerate(zip(nodes, ops, targets, strict=True)):
            effects = PLAIN if op in _WITHOUT_EFFECTS else known.get((op, target))
            if effects is None:
                effects = known[op, target] = self._new_effects(op, node.target, target)
            all_effects.append(effects)
            if effects.is_plain and not node.kwargs:
                kinds.append(())
                continue
            kind = effects.kinds if holds(effects.condition, node.args, node.kwargs) else ()
            kinds.append(kind)
            changes_state = changes_state or "state" in kind or effects.changes_global_state
            if places := self._written(node, effects):
                written[position] = places
        if not (written or changes_state):
            return kinds
        return _StorageEffects(nodes, ops, all_effects, self._nodes_in, self._attribute).added_to(kinds, written)

    def _new_effects(self, op: str, target: Any, name: str) -> OperatorEffects:
        if op == "call_module":
            _, module, traits, graph = self._called[name]
            return module_effects(module, traits) if graph is None else _effects_of_graph(graph)
        return function_effects(target, name) if op == "call_function" else method_effects(name)

    def _written(self, node: Any, effects: OperatorEffects) -> list[Any]:
        """List the nodes whose storage a call writes."""
        args, kwargs = node.args, node.kwargs
        written = self._nodes_in(kwargs["out"]) if "out" in kwargs else []
        if effects.writes and holds(effects.writes_condition, args, kwargs):
            for place in effects.writes:
                written += self._nodes_in(_argument(place, args, kwargs))
        if _is_true(effects.inplace and _argument(effects.inplace, args, kwargs)):
            written += self._nodes_in(args[0] if args else kwargs.get("input"))
        return written

    def _nodes_in(self, value: Any) -> list[Any]:
        if type(value) is self._node_type or isinstance(value, self._node_type or ()):
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        elif isinstance(value, slice):
            value = [value.start, value.stop, value.step]
        return [node for item in value for node in self._nodes_in(item)] if isinstance(value, _SEQUENCES) else []


class _StorageEffects:
    """For graphs in which something is written: which nodes read and write which storage."""

    def __init__(
        self,
        nodes: Sequence[Any],
        ops: Sequence[str],
        all_effects: Sequence[OperatorEffects],
        nodes_in: Callable[[Any], list[Any]],
        attribute: Finder,
    ) -> None:
        self._nodes = nodes
        self._ops = ops
        self._all_effects = all_effects
        self._nodes_in = nodes_in
        self._attribute = attribute
        self._position = {node: position for position, node in enumerate(nodes)}
        self._storage = SharedStorage(len(nodes))
        self._holders: dict[Any, int] = {}  # storage of a tensor -> first get_attr node that reads it
        self._roots: list[int] = []  # of each node the first that shares storage with it, once all are joined

    def added_to(self, kinds: list[tuple[str, ...]], written: dict[int, list[Any]]) -> list[tuple[str, ...]]:
        """Give the effects with the reads and writes of everything that is written somewhere."""
        for position, (node, op, effects) in enumerate(zip(self._nodes, self._ops, self._all_effects, strict=True)):
            if op not in _ENDS:
                self._join(position, node, op, effects)
        self._roots = roots = [self._storage.first(position) for position in range(len(self._nodes))]
        module_reads = self._module_reads()
        writes = {position: {roots[self._position[node]] for node in nodes} for position, nodes in written.items()}
        for position, read in module_reads.items():
            if "state" in kinds[position]:
                writes.setdefault(position, set()).update(read)
        touched = set().union(*writes.values())
        reads = self._reads(touched)
        for position, read in module_reads.items():
            reads.setdefault(position, set()).update(read & touched)
        result = list(kinds)
        global_state: int | None = None  # the first node that changes it
        changes_global_state = any(effects.changes_global_state for effects in self._all_effects)
        # Few nodes touch what is written: the others are looked at only if something changes how all of them compute.
        for position in range(len(kinds)) if changes_global_state else {**reads, **writes}:
            if global_state is None and self._all_effects[position].changes_global_state:
                global_state = position
            texts = self._texts(position, writes.get(position, _NOTHING), reads.get(position, _NOTHING), global_state)
            result[position] += texts
        return result

    def _join(self, position: int, node: Any, op: str, effects: OperatorEffects) -> None:
        args = node.args
        if effects.aliases == "none" and len(args) == 1 and not isinstance(args[0], _SEQUENCES) and not node.kwargs:
            return  # the ordinary case of what follows
        if op == "get_attr":
            for key in _storages([self._attribute(node.target)]):
                self._storage.join(position, self._holders.setdefault(key, position))
        else:
            for shared in self._shared(node, effects):
                self._storage.join(position, self._position[shared])

    def _shared(self, node: Any, effects: OperatorEffects) -> list[Any]:
        """List the nodes whose storage a result may share."""
        args, kwargs = node.args, node.kwargs
        if effects.inplace and _is_true(_argument(effects.inplace, args, kwargs)):
            return self._nodes_in(args[0] if args else kwargs.get("input"))
        if "out" in kwargs:
            return self._nodes_in(kwargs["out"])
        if effects.aliases == "all":
            return self._nodes_in(args) + self._nodes_in(kwargs)
        if effects.aliases == "none":
            # Adding lists keeps their items.
            return [shared for each in args if isinstance(each, _SEQUENCES) for shared in self._nodes_in(each)]
        if node.target is getattr and len(args) > 1 and "non_aliasing" in facts_of_name(f"Tensor.{args[1]}"):
            return []
        positions = (0,) if effects.aliases == "first" else effects.aliases
        named = [] if args else list(kwargs.values())
        return self._nodes_in([args[index] for index in positions if index < len(args)] + named)  # type: ignore[operator]  # "first" and positions are left

    def _module_reads(self) -> dict[int, set[int]]:
        """Give for calls of modules the get_attr nodes that read what they hold, by the first of each storage."""
        found: dict[int, set[int]] = {}
        for position, node in enumerate(self._nodes if self._holders else ()):
            if self._ops[position] == "call_module":
                module = self._attribute(node.target)
                keys = _storages([*module.parameters(), *module.buffers()])
                held = {self._roots[self._holders[key]] for key in keys if key in self._holders}
                if held:
                    found[position] = held
        return found

    def _reads(self, touched: Set[int]) -> dict[int, set[int]]:
        """Give for nodes the written storages that they read, or that their results share; `touched` are those."""
        reads: dict[int, set[int]] = {}
        for position, root in enumerate(self._roots):
            if root in touched:
                if root != position and self._ops[position] != "placeholder":
                    reads.setdefault(position, set()).add(root)
                for user in self._nodes[position].users:
                    reads.setdefault(self._position[user], set()).add(root)
        return reads

    def _texts(self, position: int, writes: Set[int], reads: Set[int], global_state: int | None) -> tuple[str, ...]:
        names = self._nodes
        texts = [f"write %{names[first].name}" for first in sorted(writes)]
        texts += [f"read %{names[first].name}" for first in sorted(reads - writes)]
        if global_state is not None and self._ops[position] not in _ENDS:
            verb = "write" if self._all_effects[position].changes_global_state else "read"
            texts.append(f"{verb} %{names[global_state].name}")
        return tuple(texts)


def _argument(place: ArgumentPlace, args: Any, kwargs: Any) -> Any:
    position, name = place
    return args[position] if len(args) > position else kwargs.get(name)


def _is_true(value: Any) -> bool:
    # A node as argument may be true.
    return value is not None and value is not False and not (isinstance(value, int) and not value)


def _storages(values: Iterable[Any]) -> set[Any]:
    return {_storage_key(value) for value in values if isinstance(value, torch.Tensor)}


def _storage_key(tensor: torch.Tensor) -> Any:
    try:
        pointer = tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors have no storage to ask
        pointer = 0
    return pointer or ("id", id(tensor))


def _effects_of_graph(document: GraphDocument) -> OperatorEffects:
    """Sum up a graph that is called as a module: its own effects, and which of its inputs it writes."""
    inputs = [node.name for node in document.nodes if node.op == "placeholder"]
    texts = {text for node in document.nodes for text in node.effects}
    kinds = [kind for kind in ("random", "state", "io", "call", "collective") if kind in texts]
    written = {text.removeprefix("write %") for text in texts if text.startswith("write %")}
    return OperatorEffects(
        kinds=tuple(kinds), writes=tuple((index, name) for index, name in enumerate(inputs) if name in written)
    )
