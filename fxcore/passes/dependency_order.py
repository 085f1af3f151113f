"""The order in which things run that need one another: nodes, partitions, passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


def in_dependency_order(
    needs: dict[_T, int],
    followers: Callable[[_T], Iterable[_T]],
    *,
    take: Callable[[deque[_T]], _T] = deque.popleft,
    comes_early: Callable[[_T], bool] = lambda item: False,
) -> list[_T]:
    """Return items in an order that puts each behind the items that it needs. Items of a circle are left out.

    `needs` counts what each item needs, and keeps the counts that stay unmet. `followers` returns the items that need
    an item, once for each count. `take` chooses from the items that are ready; an item that `comes_early` is put first.
    """
    ready = deque(item for item, count in needs.items() if not count)
    found: list[_T] = []
    while ready:
        item = take(ready)
        found.append(item)
        for follower in followers(item):
            needs[follower] -= 1
            if not needs[follower]:
                (ready.appendleft if comes_early(follower) else ready.append)(follower)
    return found
