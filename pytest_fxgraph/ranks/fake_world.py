"""Torch's fake process group: one process takes the place of each rank in turn, and collectives exchange nothing.

Source: `torch.testing._internal.distributed.fake_pg`, which torch's own tests of parallel plans use.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from fxcore.state.snapshot import globals_kept
from pytest_fxgraph.captures.distributed_internals import forget_placements
from pytest_fxgraph.errors import RanksError

_FAKE = "torch.testing._internal.distributed.fake_pg"


@contextmanager
def rank_of_fake_world(rank: int, world_size: int) -> Iterator[None]:
    """Be one rank of a world of fake processes for a `with` block; generators and environment are restored.

    Every rank starts with the same state of the random generators, as processes with one seed do. Raises RanksError if
    this torch has no fake process group, or if this process is a rank of a world already.
    """
    refuse_without_distributed()
    refuse_inside_a_world(f"take the place of rank {rank}")
    if importlib.util.find_spec(_FAKE) is None:
        raise RanksError(
            f"torch {torch.__version__} has no fake process group ({_FAKE}); take a release that has it, or compare "
            "real ranks by fx_equivalence(..., ranks=)"
        )
    fake = importlib.import_module(_FAKE)
    names = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size)}
    with globals_kept(), patch.dict(os.environ, names):
        torch.distributed.init_process_group("fake", store=fake.FakeStore(), rank=rank, world_size=world_size)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()
            forget_placements()


def refuse_without_distributed() -> None:
    """Raise RanksError if torch was built without torch.distributed."""
    if not torch.distributed.is_available():
        raise RanksError(
            f"fx_ranks needs torch.distributed, and torch {torch.__version__} was built without it: install a build "
            "with USE_DISTRIBUTED=1"
        )


def refuse_inside_a_world(action: str) -> None:
    """Raise RanksError if this process is a rank of a world already."""
    if torch.distributed.is_initialized():
        raise RanksError(
            f"cannot {action}: this process is already rank {torch.distributed.get_rank()} of "
            f"{torch.distributed.get_world_size()}, and torch has one world for a process; call "
            "torch.distributed.destroy_process_group() first"
        )
