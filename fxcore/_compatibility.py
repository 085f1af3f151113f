"""The decorator that libraries import from torch.fx's private file of this name. Here it promises nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Return a decorator that returns its argument unchanged."""

    def decorate(decorated: _T) -> _T:
        return decorated

    return decorate
