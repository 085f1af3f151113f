"""The decorator that libraries take from torch.fx's private file of this name; here it promises nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Return a decorator that leaves what it decorates as it is."""

    def decorate(decorated: _T) -> _T:
        return decorated

    return decorate
