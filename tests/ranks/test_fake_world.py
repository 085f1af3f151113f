"""One process takes the place of each rank in turn, and leaves everything as it was."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch
import torch.distributed as dist

from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.errors import RanksError
from pytest_fxgraph.ranks.fake_world import rank_of_fake_world

pytestmark = needs_fake_group


def test_a_rank_knows_its_number_and_its_world_and_all_is_restored():
    torch.manual_seed(0)
    expected, environment = torch.rand(2), dict(os.environ)
    torch.manual_seed(0)

    with rank_of_fake_world(2, 3):
        assert (dist.get_rank(), dist.get_world_size()) == (2, 3)
        assert [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")] == ["2", "2", "3"]
        torch.rand(5)

    assert not dist.is_initialized()
    assert dict(os.environ) == environment
    assert torch.equal(torch.rand(2), expected)


def test_a_rank_of_a_world_takes_the_place_of_no_other():
    with (
        fake_group(rank=1, size=4),
        pytest.raises(RanksError, match="cannot take the place of rank 0: this process is already rank 1 of 4"),
        rank_of_fake_world(0, 2),
    ):
        pass


def test_a_torch_without_distributed_or_without_fake_processes_is_refused(monkeypatch):
    with monkeypatch.context() as context:
        context.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(RanksError, match="has no fake process group"), rank_of_fake_world(0, 2):
            pass
    monkeypatch.setattr(dist, "is_available", lambda: False)
    missing = pytest.raises(RanksError, match=r"fx_ranks needs torch\.distributed, and torch .* was built without it")
    with missing, rank_of_fake_world(0, 2):
        pass
