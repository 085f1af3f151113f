"""The order of a graph's collectives before and after a pass: values of one process cannot show a wrong one."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from pytest_fxgraph.captures.collective_nodes import (
    arguments_of,
    bytes_of,
    group_argument,
    is_wait,
    kind_of,
    reduction_of,
    tensors_of,
)
from pytest_fxgraph.report.printable import counted, listed


class _Call(NamedTuple):
    """One collective of a graph."""

    name: str
    kind: str  # with its reduction: "all_reduce(sum)"
    group: str
    bytes: int
    lineage: int  # equal for calls that do the same with equally computed values
    waits: int  # nodes that wait for it
    early_readers: tuple[str, ...]  # nodes that read its result and wait for nothing


@dataclass(frozen=True)
class CollectiveOrder:
    """The collectives of a graph in their order."""

    calls: tuple[_Call, ...]

    @staticmethod
    def of(nodes: Sequence[Any]) -> CollectiveOrder:
        """Read the collectives of a graph."""
        found = [node for node in nodes if kind_of(node) is not None]
        lineages = _lineages(nodes) if found else {}
        return CollectiveOrder(tuple([_call(node, lineages) for node in found]))

    def warn_of_fake_values(self, name: str) -> None:
        """Warn if values of collectives cannot differ, because the group of this process exchanges nothing."""
        distributed: Any = torch.distributed
        if self.calls and distributed.is_initialized() and distributed.get_backend() == "fake":
            warnings.warn(
                f"{name}: the order of {counted(len(self.calls), 'collective')} was checked, and their values were "
                "not: torch's fake process group exchanges nothing; compare values on real ranks",
                stacklevel=2,
            )

    def harm(self, after: CollectiveOrder) -> str | None:
        """Return in words how a pass breaks the order; None if it keeps it.

        A pass may merge collectives of one kind and group (buckets): their bytes together count.
        """
        partners = self._partners(after)
        for before, made in partners:
            if before.waits and not made.waits:
                return f"no node waits for {made.name} any more, so that its result is read before the data are there"
            new = [reader for reader in made.early_readers if reader not in before.early_readers]
            if new and not before.early_readers:
                return f"{listed(new, 3)} reads the result of {made.name} before the wait for it"
        return self._reordered(after, partners) or self._dropped(after, partners)

    def _partners(self, after: CollectiveOrder) -> list[tuple[_Call, _Call]]:
        """Pair the calls that do the same with the same values, then those with one name."""
        pairs: list[tuple[_Call, _Call]] = []
        left, right = [*self.calls], [*after.calls]
        for field in ("lineage", "name"):
            known: dict[object, list[_Call]] = defaultdict(list)
            for call in right:
                known[getattr(call, field), call.kind, call.group].append(call)
            for call in [*left]:
                alike = known[getattr(call, field), call.kind, call.group]
                if alike:
                    partner = alike.pop(0)
                    pairs.append((call, partner))
                    left.remove(call)
                    right.remove(partner)
        return pairs

    def _reordered(self, after: CollectiveOrder, pairs: Sequence[tuple[_Call, _Call]]) -> str | None:
        places = {call.name: place for place, call in enumerate(after.calls)}
        latest: dict[str, tuple[_Call, _Call]] = {}
        for before, made in sorted(pairs, key=lambda pair: self.calls.index(pair[0])):
            earlier = latest.get(before.group)
            if earlier is not None and places[made.name] < places[earlier[1].name]:
                return (
                    f"{earlier[0].name} was called before {before.name} in the group {before.group}, and is called "
                    "after it now: ranks whose graph has the other order wait for each other, or exchange wrong data"
                )
            latest[before.group] = before, made
        return None

    def _dropped(self, after: CollectiveOrder, pairs: Sequence[tuple[_Call, _Call]]) -> str | None:
        kept = {before.name for before, _ in pairs}, {made.name for _, made in pairs}
        lost: Counter[tuple[str, str]] = Counter()
        names: dict[tuple[str, str], list[str]] = defaultdict(list)
        for side, known, sign in ((self, kept[0], 1), (after, kept[1], -1)):
            for call in side.calls:
                if call.name not in known:
                    about = call.kind, call.group
                    lost[about] += sign * max(call.bytes, 1)
                    names[about] += [call.name] * (sign > 0)
        for (kind, group), missing in lost.items():
            if missing > 0:
                return (
                    f"{listed(names[kind, group], 3)} of the group {group} is gone, and no {kind} of as many bytes "
                    "takes its place: other ranks wait for it, or the values of the ranks part"
                )
        return None


def _call(node: Any, lineages: Mapping[Any, int]) -> _Call:
    kind, group = kind_of(node) or "", group_argument(node)
    waits: list[str] = []
    early: list[str] = []
    for reader in _readers(node):
        (waits if is_wait(reader) else early).append(reader.name)
    reduction = reduction_of(node, kind, arguments_of(node))
    return _Call(
        node.name, f"{kind}({reduction})" if reduction else kind, str(getattr(group, "target", group)),
        max([bytes_of(tensors_of(each)) for each in (node, *node.all_input_nodes)]), lineages[node],
        len(waits), tuple(early),
    )  # fmt: skip


def _readers(node: Any) -> Iterator[Any]:
    for reader in node.users:
        if getattr(reader.target, "__name__", "") == "getitem":
            yield from _readers(reader)
        elif reader.op != "output":
            yield reader


def _lineages(nodes: Sequence[Any]) -> dict[Any, int]:
    """Return a hash for each node that says how its value is computed, without names."""
    found: dict[Any, int] = {}
    for node in nodes:
        values = [found[leaf] if leaf in found else repr(leaf) for leaf in _leaves(node)]
        found[node] = hash((node.op, str(node.target), *values))
    return found


def _leaves(node: Any) -> list[Any]:
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [leaf if hasattr(leaf, "all_input_nodes") else repr(leaf) for leaf in leaves]
