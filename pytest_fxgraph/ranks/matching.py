"""Matching of collectives across ranks: a deadlock is found from the recorded orders, without a run.

Every rank stands at its next collective. A collective is over when all ranks of its group stand at one of the same
kind, with compatible tensors. If no rank can go on, the ranks wait for each other: that is the deadlock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_fxgraph.ranks.collectives import Collective
from pytest_fxgraph.ranks.groups import ranks_text


def mismatch_of(collectives: Mapping[int, Sequence[Collective]]) -> str | None:
    """Return the first mismatch of the ranks' collectives in words; None if every collective finds its partners.

    `collectives` has the collectives of each rank in their order. A rank that was not captured is believed to do what
    its partners ask for.
    """
    places = dict.fromkeys(collectives, 0)
    while True:
        heads = {rank: collectives[rank][place] for rank, place in places.items() if place < len(collectives[rank])}
        if not heads:
            return None
        ready = [head for head in heads.values() if _is_met(head, heads, collectives)]
        if not ready:
            return _deadlock(heads, collectives)
        met = ready[0]
        parties = [rank for rank in met.communicator.ranks if rank in collectives]
        wrong = _incompatible([heads[rank] for rank in parties])
        if wrong is not None:
            return wrong
        for rank in parties:
            places[rank] += 1


def _is_met(head: Collective, heads: Mapping[int, Collective], collectives: Mapping[int, Sequence[Collective]]) -> bool:
    """Return whether all captured ranks of a group stand at a collective of this group."""
    return all(
        rank in heads and heads[rank].communicator.ranks == head.communicator.ranks
        for rank in head.communicator.ranks
        if rank in collectives
    )


def _incompatible(calls: Sequence[Collective]) -> str | None:
    first = calls[0]
    for other in calls[1:]:
        for field in ("kind", "reduction", "dtype", "shapes"):
            if getattr(other, field) != getattr(first, field):
                return (
                    f"rank {first.rank} calls {first.text} ({_place(first)}), and rank {other.rank} calls {other.text} "
                    f"({_place(other)}): the {field} differs, and both wait for each other or exchange wrong data"
                )
    return None


def _deadlock(heads: Mapping[int, Collective], collectives: Mapping[int, Sequence[Collective]]) -> str:
    lines = ["the ranks wait for each other without end:"]
    for rank in sorted(collectives):
        head = heads.get(rank)
        lines.append(
            f"  rank {rank} has called all its {len(collectives[rank])} collectives"
            if head is None
            else f"  rank {rank} waits in {head.text} ({_place(head)}) for {_missing(head, heads, collectives)}"
        )
    return "\n".join(lines)


def _missing(head: Collective, heads: Mapping[int, Collective], collectives: Mapping[int, Sequence[Collective]]) -> str:
    missing = [
        rank
        for rank in head.communicator.ranks
        if rank in collectives and (rank not in heads or heads[rank].communicator.ranks != head.communicator.ranks)
    ]
    return f"rank {ranks_text(missing)}"


def _place(call: Collective) -> str:
    where = f" in {call.module}" if call.module else ""
    return f"its collective {call.order}, node {call.node}{where}"
