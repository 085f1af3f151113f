"""Memory that one check after another copies a model's state into."""

from __future__ import annotations

import mmap
import sys

import torch

_LARGE_PAGE = 2 << 20
# More is given back to the system: tests that come later may need it.
_KEPT = 512 << 20


class SpareMemory:
    """Lends memory, and keeps one piece of what comes back: its first touch costs more than copying into it."""

    def __init__(self) -> None:
        self._spare: list[torch.Tensor] = []  # one or none; a list's pop() cannot lend one piece to two threads

    def take(self, size: int) -> torch.Tensor:
        """Lend at least so many bytes; nobody else has them until they are given back."""
        try:
            spare = self._spare.pop()
        except IndexError:
            return _reserved(size)
        return spare if spare.numel() >= size else _reserved(size)

    def give_back(self, memory: torch.Tensor) -> None:
        """Take memory back that nobody reads any more."""
        if not self._spare and memory.numel() <= _KEPT:
            self._spare.append(memory)


def _reserved(size: int) -> torch.Tensor:
    """Reserve memory in large pages where the system has them: one is touched where 512 small ones would be."""
    if size >= _LARGE_PAGE and sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            pages.madvise(mmap.MADV_HUGEPAGE)
            return torch.frombuffer(pages, dtype=torch.uint8)  # keeps the pages, and gives them back when it dies
        except OSError:
            pass  # a system without large pages
    return torch.empty(size, dtype=torch.uint8, device="cpu")
