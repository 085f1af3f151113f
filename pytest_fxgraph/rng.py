"""The global random generators that a model may draw from: torch's on each device, Python's, numpy's."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class RngState:
    """The states of the global generators at one time."""

    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...]
    python: tuple[Any, ...]
    numpy: Any  # None where numpy is not imported: then nobody can have drawn from it

    @classmethod
    def now(cls) -> RngState:
        """Read all generators; those of CUDA only if CUDA is in use, because asking would start it."""
        cuda = torch.cuda.get_rng_state_all() if _cuda_is_used() else []
        numpy = sys.modules.get("numpy")
        of_numpy = numpy.random.get_state() if numpy is not None else None
        return cls(torch.get_rng_state(), tuple(cuda), random.getstate(), of_numpy)

    def restore(self) -> None:
        """Set all generators back to these states."""
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)

    def differences(self, other: RngState) -> tuple[str, ...]:
        """Name the generators whose states differ; one that only one side has is not compared."""
        names = []
        if not torch.equal(self.cpu, other.cpu):
            names.append("torch's CPU generator")
        for index, (before, after) in enumerate(zip(self.cuda, other.cuda, strict=False)):
            if not torch.equal(before, after):
                names.append(f"the generator of cuda:{index}")
        if self.python != other.python:
            names.append("Python's random")
        if not _same_numpy(self.numpy, other.numpy):
            names.append("numpy.random")
        return tuple(names)


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the global generators at the end of a with block, also after an error."""
    before = RngState.now()
    try:
        yield
    finally:
        before.restore()


def seed_all(seed: int) -> None:
    """Seed all global generators, so that two runs draw the same numbers."""
    # Not torch.manual_seed(): it prepares a message with a stack trace for each device that is not there.
    torch.default_generator.manual_seed(seed)
    if _cuda_is_used():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _cuda_is_used() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's own


def _same_numpy(expected: Any, obtained: Any) -> bool:
    if expected is None or obtained is None:
        return True
    # The second item is an array; the cheap ones are compared first.
    kind, keys, *rest = expected
    other_kind, other_keys, *other_rest = obtained
    return bool(kind == other_kind and rest == other_rest and (keys == other_keys).all())
