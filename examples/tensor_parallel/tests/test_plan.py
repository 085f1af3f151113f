"""The plan of the decoder: one program on all ranks, its collectives, and the same results as the plain model."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from decoder.model import decoder, tokens
from decoder.plan import tensor_parallel
from torch import nn


def test_all_ranks_run_one_program(fx_ranks, fx_golden):
    programs = fx_ranks(tensor_parallel, tokens(), world_size=2)

    programs.assert_spmd()
    programs.assert_matching_collectives()
    assert programs == fx_golden


def test_a_block_reduces_twice_in_a_forward(fx_ranks):
    programs = fx_ranks(tensor_parallel, tokens(), world_size=2, ranks=[0])

    kinds = [each.kind for each in programs.collectives.of_rank(0)]
    assert kinds == ["all_reduce"] * 4


def test_the_program_computes_what_the_model_does(fx_equivalence):
    fx_equivalence(decoder(), tokens(), ranks=2, build=tensor_parallel, grads=True, timeout=300)


class ReducesOnTheFirstRank(nn.Module):
    """A mistake: a branch on the rank around a collective. In a run, the first rank waits for ever."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 0:
            dist.all_reduce(x)
        return x


def test_a_deadlock_is_found_without_a_run(fx_ranks):
    programs = fx_ranks(lambda rank: ReducesOnTheFirstRank(), torch.ones(4), world_size=2)

    with pytest.raises(AssertionError, match="rank 0 waits in all_reduce"):
        programs.assert_matching_collectives()
