"""The order in which things run that need one another: nodes, partitions, passes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T", bound=Hashable)


def in_dependency_order(
    needs: dict[_T, int],
    followers: Callable[[_T], Iterable[_T]],
    rank: Callable[[_T, int], Any] = lambda item, time: time,
) -> list[_T]:
    """Return items in an order that puts each behind the items that it needs. Items of a circle are left out.

    `needs` counts what each item needs, and keeps the counts that stay unmet. `followers` returns the items that need
    an item, once for each count. Of the items that are ready, the one with the lowest `rank` comes next; `rank` gets
    the item, and a number that grows with every item that becomes ready.
    """
    ready: list[tuple[Any, int, _T]] = []
    found: list[_T] = []
    time = 0

    def add(items: Iterable[_T]) -> None:
        nonlocal time
        for item in items:
            if not needs[item]:
                time += 1
                heapq.heappush(ready, (rank(item, time), time, item))

    add(needs)
    while ready:
        item = heapq.heappop(ready)[2]
        found.append(item)
        for follower in followers(item):
            needs[follower] -= 1
            add((follower,))
    return found
