"""Where a graph puts new nodes."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from fxcore.node import Node


class _Graph(Protocol):
    _insert: Callable[[Node], None]


class InsertPoint:
    """The place where a graph puts new nodes; leaving the `with` block restores the place before."""

    def __init__(self, graph: _Graph, insert: Callable[[Node], None]) -> None:
        self._graph = graph
        self._before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._graph._insert = self._before
