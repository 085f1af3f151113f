"""The effects of all nodes of a graph in the words of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import torch

from fxcore.nodes.shared_storage import StorageSets
from fxcore.operators.effects import PLAIN, Effects, first_argument, function_effects, method_effects, module_effects
from fxcore.operators.table import facts_of_name
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.modules import CalledModule

Finder = Callable[[str], Any]

_ENDS = ("placeholder", "output")
_WITHOUT_EFFECTS = (*_ENDS, "get_attr")
_SEQUENCES = (list, tuple)
_NOTHING: Set[int] = frozenset()


class EffectTexts:
    """The effects of nodes as texts. `attribute` returns the object at a path below the graph's module."""

    def __init__(self, node_type: type | None, attribute: Finder, called: Mapping[str, CalledModule]) -> None:
        self._node_type = node_type
        self.attribute = attribute
        self._called = called
        self._known: dict[tuple[str, str], Effects] = {}

    def of(self, nodes: Sequence[Any], ops: Sequence[str], targets: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the effects of each node. `ops` and `targets` are the nodes' opcodes and named targets."""
        known = self._known
        all_effects: list[Effects] = []
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
            kind = effects.kinds_of_call(node.args, node.kwargs)
            kinds.append(kind)
            changes_state = changes_state or "state" in kind or effects.changes_global_state
            if nodes_written := self.nodes_in(effects.written(node.args, node.kwargs)):
                written[position] = nodes_written
        if not (written or changes_state):
            return kinds
        return _StorageEffects(self, nodes, ops, all_effects).added_to(kinds, written)

    def _new_effects(self, op: str, target: Any, name: str) -> Effects:
        if op == "call_module":
            called = self._called[name]
            return module_effects(called.module) if called.graph is None else _effects_of_graph(called.graph)
        return function_effects(target, name) if op == "call_function" else method_effects(name)

    def nodes_in(self, value: Any) -> list[Any]:
        """Return the nodes in an argument, which may be nested."""
        if type(value) is self._node_type:
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        elif isinstance(value, slice):
            value = [value.start, value.stop, value.step]
        return [node for item in value for node in self.nodes_in(item)] if isinstance(value, _SEQUENCES) else []


class _StorageEffects:
    """Reads and writes of storage, for a graph with at least one write."""

    def __init__(
        self, texts: EffectTexts, nodes: Sequence[Any], ops: Sequence[str], all_effects: Sequence[Effects]
    ) -> None:
        self._nodes, self._ops, self._all_effects = nodes, ops, all_effects
        self._nodes_in, self._attribute = texts.nodes_in, texts.attribute
        self._position = {node: position for position, node in enumerate(nodes)}
        self._storage = StorageSets(len(nodes))
        self._holders: dict[Any, int] = {}  # storage of a tensor -> its first get_attr node
        self._roots: list[int] = []  # position of a node -> first position that shares its storage

    def added_to(self, kinds: list[tuple[str, ...]], written: dict[int, list[Any]]) -> list[tuple[str, ...]]:
        """Return `kinds` with the reads and writes of every written storage added."""
        for position, (node, op, effects) in enumerate(zip(self._nodes, self._ops, self._all_effects, strict=True)):
            if op not in _ENDS:
                self._join(position, node, op, effects)
        self._roots = roots = self._storage.all_first()
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
        # Few nodes touch written storage. The loop visits the other nodes only if a node changes global state.
        for position in range(len(kinds)) if changes_global_state else {**reads, **writes}:
            if global_state is None and self._all_effects[position].changes_global_state:
                global_state = position
            texts = self._texts(position, writes.get(position, _NOTHING), reads.get(position, _NOTHING), global_state)
            result[position] += texts
        return result

    def _join(self, position: int, node: Any, op: str, effects: Effects) -> None:
        args = node.args
        if effects.aliases == "none" and len(args) == 1 and not isinstance(args[0], _SEQUENCES) and not node.kwargs:
            return  # a shortcut for the most frequent case
        if op == "get_attr":
            for key in _storages([self._attribute(node.target)]):
                self._storage.join(position, self._holders.setdefault(key, position))
        else:
            for shared in self._shared(node, effects):
                self._storage.join(position, self._position[shared])

    def _shared(self, node: Any, effects: Effects) -> list[Any]:
        """Return the nodes whose storage the result of a call may share."""
        args, kwargs = node.args, node.kwargs
        if len(args) == 1 and not kwargs and effects.aliases in ("all", "first"):
            return self._nodes_in(args[0])  # nearly always; the questions below take as long again
        if effects.works_in_place(args, kwargs):
            return self._nodes_in(first_argument(args, kwargs))
        if "out" in kwargs:
            return self._nodes_in(kwargs["out"])
        if effects.aliases == "all":
            return self._nodes_in(args) + self._nodes_in(kwargs)
        if effects.aliases == "none":
            # The sum of two lists holds their items.
            return [shared for each in args if isinstance(each, _SEQUENCES) for shared in self._nodes_in(each)]
        if node.target is getattr and len(args) > 1 and "non_aliasing" in facts_of_name(f"Tensor.{args[1]}"):
            return []
        positions = (0,) if effects.aliases == "first" else effects.aliases
        named = [] if args else list(kwargs.values())
        return self._nodes_in([args[index] for index in positions if index < len(args)] + named)  # type: ignore[operator]  # "first" and positions are left

    def _module_reads(self) -> dict[int, set[int]]:
        """Return for each call of a module the storages that it holds and that get_attr nodes read too."""
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
        """Return for each node the storages in `touched` that it reads or that its result shares."""
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
        if global_state is None and not writes and len(reads) == 1:  # most nodes; takes a third of the time
            return (f"read %{names[next(iter(reads))].name}",)
        texts = [f"write %{names[first].name}" for first in sorted(writes)]
        texts += [f"read %{names[first].name}" for first in sorted(reads - writes)]
        if global_state is not None and self._ops[position] not in _ENDS:
            verb = "write" if self._all_effects[position].changes_global_state else "read"
            texts.append(f"{verb} %{names[global_state].name}")
        return tuple(texts)


def _storages(values: Iterable[Any]) -> set[Any]:
    return {_storage_key(value) for value in values if isinstance(value, torch.Tensor)}


def _storage_key(tensor: torch.Tensor) -> Any:
    try:
        pointer = tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors have no storage
        pointer = 0
    return pointer or ("id", id(tensor))


def _effects_of_graph(document: GraphDocument) -> Effects:
    """Return the effects of a graph called as a module: the kinds of its nodes, and the inputs that it writes."""
    inputs = [node.name for node in document.nodes if node.op == "placeholder"]
    texts = {text for node in document.nodes for text in node.effects}
    kinds = [kind for kind in ("random", "state", "io", "call", "collective") if kind in texts]
    written = {text.removeprefix("write %") for text in texts if text.startswith("write %")}
    return Effects(
        kinds=tuple(kinds), writes=tuple((index, name) for index, name in enumerate(inputs) if name in written)
    )
