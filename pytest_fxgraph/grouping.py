"""Items put together by a key, and items that another list lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


def grouped(items: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """Map each key to its items; keys and items keep their order."""
    groups: dict[_K, list[_T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def without(items: Iterable[_T], others: Iterable[_T], key: Callable[[_T], Hashable]) -> list[_T]:
    """Return the items that the others lack, or have fewer times; items with equal keys are alike."""
    left = Counter(map(key, others))
    found = []
    for item in items:
        left[key(item)] -= 1
        if left[key(item)] < 0:
            found.append(item)
    return found
