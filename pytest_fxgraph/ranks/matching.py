"""Matching of collectives across ranks: a deadlock is found from the recorded orders, without a run.

Every rank goes through its calls. A collective is over when all ranks of its group stand at one, and the calls must fit
together. A send and the call of a receive are over at once: data are buffered. A rank that waits for a receive stops
until the data were sent. If no rank can go on, the ranks wait for each other: that is the deadlock. In the end, every
send must have a receive, and the reverse. A rank that was not captured is believed.

torch makes the same checks of kind, dtype and shapes in a run with TORCH_DISTRIBUTED_DEBUG=DETAIL.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence

from pytest_fxgraph.ranks.collectives import Collective
from pytest_fxgraph.ranks.world import ranks_text

_MOST_LINES = 12
_MOST_SPANS = 6
# Collectives whose tensors must have one shape on all ranks of the group.
_OF_ONE_SHAPE = ("all_reduce", "reduce", "broadcast")
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_Channel = tuple[int, int, int, int]  # group, sender, receiver and tag


def mismatch_of(collectives: Mapping[int, Sequence[Collective]]) -> str | None:
    """Return the first mismatch of the ranks' collectives in words; None if every collective finds its partners.

    `collectives` has the collectives of each captured rank in their order. The time is linear in their number.
    """
    return _Matching(collectives).mismatch()


class _Group:
    """The captured ranks of a group, and those of them that stand at a collective of the group."""

    def __init__(self, number: int, ranks: Sequence[int], captured: Mapping[int, object]) -> None:
        self.number = number
        self.captured = [rank for rank in ranks if rank in captured]
        self.members = frozenset(self.captured)
        self.arrived: set[int] = set()


class _Matching:
    """The ranks on their way through their collectives."""

    def __init__(self, collectives: Mapping[int, Sequence[Collective]]) -> None:
        self.collectives = collectives
        self.places = dict.fromkeys(collectives, 0)
        self.groups: dict[object, _Group] = {}
        self.known: dict[int, _Group] = {}  # the same by identity of the record: the hash of 1,000 ranks takes long
        self.sent: dict[_Channel, deque[Collective]] = defaultdict(deque)  # sends without a receive so far
        self.posted: dict[_Channel, deque[Collective]] = defaultdict(deque)  # receives without a send so far
        self.open: dict[int, list[Collective]] = defaultdict(list)  # the receives without data of each rank
        self.ready = deque(collectives)

    def mismatch(self) -> str | None:
        """Let every rank go on until none can, and return the first mismatch."""
        while self.ready:
            wrong = self._go_on(self.ready.popleft())
            if wrong is not None:
                return wrong
        if any(self._head(rank) is not None for rank in self.collectives):
            return self._deadlock()
        return self._unmatched()

    def _group(self, call: Collective) -> _Group:
        group = self.known.get(id(call.communicator))
        if group is None:
            made = _Group(len(self.groups), call.communicator.ranks, self.collectives)
            group = self.known[id(call.communicator)] = self.groups.setdefault(call.communicator.identity, made)
        return group

    def _head(self, rank: int) -> Collective | None:
        """Return the receive that a rank waits for, else its next call; None if it has made all its calls."""
        calls, place = self.collectives[rank], self.places[rank]
        for receive in self.open[rank]:
            if receive.awaited is not None and receive.awaited <= place:
                return receive
        return calls[place] if place < len(calls) else None

    def _go_on(self, rank: int) -> str | None:
        """Let a rank go on to the next call that it waits in; return a mismatch."""
        while (head := self._head(rank)) is not None:
            if head.kind not in ("send", "recv"):
                return self._arrive(head)
            if head.order < self.places[rank]:  # it waits for data
                return None
            self.places[rank] += 1
            wrong = self._exchange(head)
            if wrong is not None:
                return wrong
        return None

    def _arrive(self, head: Collective) -> str | None:
        group = self._group(head)
        if head.rank not in group.members:
            return f"rank {head.rank} calls {head.text} ({_place(head)}), and is no rank of this group"
        group.arrived.add(head.rank)
        if len(group.arrived) < len(group.captured):
            return None
        group.arrived.clear()
        calls = [self.collectives[rank][self.places[rank]] for rank in group.captured]
        for rank in group.captured:
            self.places[rank] += 1
        self.ready.extend(group.captured)
        return _incompatible(calls)

    def _exchange(self, head: Collective) -> str | None:
        """Match a send or receive with its partner, if that was called already; return a mismatch."""
        peer, group = head.peer, self._group(head).number
        if peer == head.rank:
            return f"rank {head.rank} calls {head.text} ({_place(head)}): it exchanges data with itself"
        if peer is not None and peer not in self.collectives:
            return None
        if head.kind == "send":
            channel = (group, head.rank, -1 if peer is None else peer, head.tag)
            for waiting in (channel, (group, -1, channel[2], head.tag)):  # -1: a receive from any rank
                if self.posted[waiting]:
                    receive = self.posted[waiting].popleft()
                    self.open[receive.rank] = [each for each in self.open[receive.rank] if each is not receive]
                    self.ready.append(receive.rank)
                    return _unequal(head, receive)
            self.sent[channel].append(head)
            return None
        if peer is None:
            senders = [rank for rank in head.communicator.ranks if self.sent[group, rank, head.rank, head.tag]]
            peer = senders[0] if senders else -1
        channel = (group, peer, head.rank, head.tag)
        if self.sent[channel]:
            return _unequal(self.sent[channel].popleft(), head)
        self.posted[channel].append(head)
        self.open[head.rank] += [] if self._is_believed(head) else [head]
        return None

    def _is_believed(self, call: Collective) -> bool:
        """Return whether a call is a receive from any rank, and a rank that was not captured may send."""
        return (call.kind, call.peer) == ("recv", None) and not self.collectives.keys() >= {*call.communicator.ranks}

    def _deadlock(self) -> str:
        """Describe the ranks that wait, those with equal calls in one line; the first divergence stands first."""
        alike: dict[tuple[object, ...], list[Collective]] = {}
        done: dict[int, list[int]] = {}
        for rank in self.collectives:
            head = self._head(rank)
            if head is None:
                done.setdefault(len(self.collectives[rank]), []).append(rank)
            else:
                alike.setdefault((head.text, head.order, head.node, head.module), []).append(head)
        lines = []
        for heads in sorted(alike.values(), key=lambda heads: (heads[0].order, heads[0].rank)):
            waits = "waits" if len(heads) == 1 else "wait"
            lines.append(
                f"  {_named([head.rank for head in heads])} {waits} in {heads[0].text} ({_place(heads[0])}) for "
                f"{self._missing(heads)}"
            )
        for count, ranks in done.items():
            has = "has called all its" if len(ranks) == 1 else "have called all their"
            lines.append(f"  {_named(ranks)} {has} {count} collectives")
        lines += self._divergence(min((heads[0] for heads in alike.values()), key=lambda head: (head.order, head.rank)))
        lines[_MOST_LINES:] = [f"  and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
        return "\n".join(["the ranks wait for each other without end:", *lines])

    def _divergence(self, head: Collective) -> Iterator[str]:
        """Yield a line for the first collective of the group that a missing rank calls in another way."""
        group = self._group(head)
        missing = [rank for rank in group.captured if rank not in group.arrived]
        own, others = (
            [call for rank in chosen for call in self.collectives[rank] if self._group(call) is group]
            for chosen in ([head.rank], missing[:1])
        )
        for call, other in zip(own, others, strict=False):
            if (call.text, call.module, call.source) != (other.text, other.module, other.source):
                yield (
                    f"  the first difference: rank {call.rank} calls {call.text} ({_place(call)}), and rank "
                    f"{other.rank} calls {other.text} ({_place(other)})"
                )
                return

    def _missing(self, heads: Sequence[Collective]) -> str:
        """Name the ranks that calls wait for."""
        first = heads[0]
        if first.kind == "recv":
            peers = sorted({head.peer for head in heads if head.peer is not None})
            return f"a send of {_named(peers) if peers else 'any rank'}"
        missing: set[int] = set()
        for group in {self._group(head).number: self._group(head) for head in heads}.values():
            missing |= group.members - group.arrived
        return _named(sorted(missing))

    def _unmatched(self) -> str | None:
        """Describe the first sends and receives without a partner."""
        waiting = (*self.sent.values(), *self.posted.values())
        lost = [call for calls in waiting for call in calls if not self._is_believed(call)]
        if not lost:
            return None
        lost.sort(key=lambda call: (call.order, call.rank))
        lines = [
            f"  rank {call.rank} calls {call.text} ({_place(call)}), and "
            + (f"rank {call.peer} never receives it" if call.kind == "send" else f"{_sender(call)} never sends it")
            for call in lost[:_MOST_LINES]
        ]
        lines += [f"  and {len(lost) - _MOST_LINES} more"] if len(lost) > _MOST_LINES else []
        return "\n".join(["sends and receives find no partner:", *lines])


def _incompatible(calls: Sequence[Collective]) -> str | None:
    """Return in words how the calls of one collective differ; None if they fit together."""
    first = calls[0]
    fields = ["kind", "reduction", "dtype"]
    fields += ["peer"] * (first.kind in _ROOTED) + ["shapes"] * (first.kind in _OF_ONE_SHAPE)
    for other in calls[1:]:
        for field in fields:
            mine, others = getattr(first, field), getattr(other, field)
            if mine != others and not (field == "shapes" and not (mine and others)):
                word = "root" if field == "peer" else field
                verb = "differ" if field == "shapes" else "differs"
                return _told(first, other, f"the {word} {verb}, and both wait for each other or exchange wrong data")
    return _unequal_parts(calls)


def _unequal_parts(calls: Sequence[Collective]) -> str | None:
    """Return in words which rank gives another number of elements than its partner takes."""
    if all(len(side) == 1 for call in calls for side in (call.gives, call.takes)):
        # Even parts: every rank gives and takes as much as the first.
        first = calls[0]
        for call in calls:
            for giver, taker in ((first, call), (call, first)):
                if giver.gives != taker.takes:
                    return _parts_differ(giver, taker, giver.gives[0], taker.takes[0])
        return None
    for giver, taker, given, taken in _pairs(calls):
        if given != taken:
            return _parts_differ(giver, taker, given, taken)
    return None


def _pairs(calls: Sequence[Collective]) -> Iterator[tuple[Collective, Collective, int, int]]:
    """Yield each giver and taker with the numbers of elements that one gives and the other takes; unknown ones not."""
    place_of = {rank: place for place, rank in enumerate(calls[0].communicator.ranks)}
    kind, root = calls[0].kind, calls[0].peer
    givers = [call for call in calls if call.gives and (kind != "scatter" or call.rank == root)]
    takers = [call for call in calls if call.takes and (kind != "gather" or call.rank == root)]
    for giver in givers:
        for taker in takers:
            given = giver.gives[place_of[taker.rank] if len(giver.gives) > 1 else 0]
            yield giver, taker, given, taker.takes[place_of[giver.rank] if len(taker.takes) > 1 else 0]


def _parts_differ(giver: Collective, taker: Collective, given: int, taken: int) -> str:
    return _told(
        giver, taker, f"rank {giver.rank} hands {given} elements to rank {taker.rank}, which expects {taken} of it"
    )


def _unequal(send: Collective, receive: Collective) -> str | None:
    """Return in words how a send and its receive differ."""
    if send.dtype != receive.dtype:
        return _told(send, receive, "the dtype differs, and the data are read wrongly")
    sizes = [sum(map(math.prod, each.shapes)) for each in (send, receive)]
    if send.shapes and receive.shapes and sizes[0] != sizes[1]:
        return _told(send, receive, f"{sizes[0]} elements are sent and {sizes[1]} expected")
    return None


def _told(first: Collective, second: Collective, difference: str) -> str:
    return (
        f"rank {first.rank} calls {first.text} ({_place(first)}), and rank {second.rank} calls {second.text} "
        f"({_place(second)}): {difference}"
    )


def _named(ranks: Sequence[int]) -> str:
    spans = ranks_text(ranks).split(", ")
    more = f", ... ({len(ranks)} ranks)" if len(spans) > _MOST_SPANS else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(spans[:_MOST_SPANS])}{more}"


def _sender(call: Collective) -> str:
    return "any rank" if call.peer is None else f"rank {call.peer}"


def _place(call: Collective) -> str:
    where = f" in {call.module}" if call.module else ""
    source = f", at `{call.source}`" if call.source else ""
    return f"its collective {call.order}, node {call.node}{where}{source}"
