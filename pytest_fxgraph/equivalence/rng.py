"""Every random generator that a forward may draw from: torch's on each device, Python's, numpy's."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class RngState:
    """Where the global generators stand."""

    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...]
    python: tuple[Any, ...]
    numpy: Any  # None where numpy was never imported: then nobody can have drawn from it

    @classmethod
    def now(cls) -> RngState:
        """Read all generators; CUDA's only where CUDA has been used, for asking would start it."""
        cuda = torch.cuda.get_rng_state_all() if _cuda_is_used() else []
        numpy = sys.modules.get("numpy")
        return cls(
            torch.get_rng_state(),
            tuple(cuda),
            random.getstate(),
            numpy.random.get_state() if numpy is not None else None,
        )

    def restore(self) -> None:
        """Put all generators back to where they stood."""
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)

    def moved_to(self, later: RngState) -> tuple[str, ...]:
        """Name the generators that stand elsewhere in `later`."""
        names = []
        if not torch.equal(self.cpu, later.cpu):
            names.append("torch's CPU generator")
        for index, (before, after) in enumerate(zip(self.cuda, later.cuda, strict=False)):
            if not torch.equal(before, after):
                names.append(f"the generator of cuda:{index}")
        if self.python != later.python:
            names.append("Python's random")
        if not _same_numpy(self.numpy, later.numpy):
            names.append("numpy.random")
        return tuple(names)


def _cuda_is_used() -> bool:
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's own


def seed_all(seed: int) -> None:
    """Seed the global generators alike for every lane."""
    # Not torch.manual_seed(): it prepares a message with a stack trace for each device that is not there.
    torch.default_generator.manual_seed(seed)
    if _cuda_is_used():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _same_numpy(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return True
    return all(bool((part == counterpart) if isinstance(part, (str, int, float)) else (part == counterpart).all())
               for part, counterpart in zip(one, other, strict=True))  # fmt: skip
