"""`fx_ranks(..., backend="gloo")`: real ranks give the graphs of fake ones, and see what other ranks send."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fixtures.parallel_plans import data_parallel, fully_sharded, inputs, tensor_parallel
from fixtures.process_groups import needs_fake_group
from fixtures.process_groups import training_forks as training_forks
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import ChoiceError, RanksError

pytestmark = [
    needs_fake_group,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this torch has no gloo"),
]


def assert_same_program(real, fake):
    """Compare the goldens, collectives and costs of two programs, and each graph of a rank."""
    assert encode(build_document(real.as_graph_module())) == encode(build_document(fake.as_graph_module()))
    assert [*real.collectives] == [*fake.collectives]
    assert str(real.cost) == str(fake.cost)
    assert real.groups == fake.groups
    for rank, graph in fake.graphs.items():
        names = [(node.op, node.name, str(node.target)) for node in graph.graph.nodes]
        assert names == [(node.op, node.name, str(node.target)) for node in real.graphs[rank].graph.nodes]


def test_real_ranks_give_the_golden_of_fake_ones(fx_ranks):
    real, fake = (fx_ranks(tensor_parallel, inputs(), world_size=2, backend=name) for name in ("gloo", "fake"))
    real.assert_spmd()
    real.assert_matching_collectives()
    assert len(real.collectives.of_rank(1)) == 2
    assert_same_program(real, fake)


@pytest.mark.slow
@pytest.mark.usefixtures("training_forks")
@pytest.mark.parametrize("plan", [tensor_parallel, fully_sharded, data_parallel])
def test_training_steps_of_real_ranks_give_the_golden_of_fake_ones(fx_ranks, plan):
    made = [fx_ranks(plan, inputs(), world_size=2, mode="train", backend=name) for name in ("gloo", "fake")]
    assert_same_program(*made)


class Counted(nn.Module):
    """Reads as many columns as all ranks together count."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.tensor(dist.get_rank() + 1)
        dist.all_reduce(count)
        return x[:, : count.item()]


def columns_of(programs):
    return [graph.graph.output_node().args[0].meta["val"].shape[1] for graph in programs.graphs.values()]


def test_a_graph_that_depends_on_an_exchanged_number_is_that_of_a_real_run(fx_ranks):
    programs = fx_ranks(lambda rank: Counted(), torch.ones(4, 4), world_size=2, backend="gloo")
    assert columns_of(programs) == [3, 3]
    programs.assert_spmd()
    assert columns_of(fx_ranks(lambda rank: Counted(), torch.ones(4, 4), world_size=2)) == [1, 2]


def wide_as_all_ranks(rank: int) -> nn.Module:
    width = torch.tensor(rank + 1)
    dist.all_reduce(width)
    return nn.Linear(int(width), 2)


def test_a_builder_may_exchange_tensors_and_some_ranks_return(fx_ranks):
    programs = fx_ranks(wide_as_all_ranks, torch.ones(1, 6), world_size=3, backend="gloo", ranks=[2])
    assert programs.world.size == 3
    assert [*programs.graphs] == [2]
    assert programs.graphs[2].get_parameter("weight").shape == (2, 6)


def test_a_real_rank_that_raises_is_told_with_what_the_others_wait_for(fx_ranks):
    def build(rank):
        if rank == 1:
            raise KeyError("no shard")
        return wide_as_all_ranks(rank)

    with pytest.raises(RanksError) as caught:
        fx_ranks(build, torch.ones(1, 3), world_size=2, backend="gloo", timeout=500)
    told = str(caught.value)
    assert "rank 1 of 2 failed in capture_of_rank: RanksError: cannot build the model of rank 1: KeyError:" in told
    assert "rank 0 waits in all_reduce, called in wide_as_all_ranks (test_sent_programs.py:" in told


def test_real_ranks_of_another_frontend_are_refused(fx_ranks):
    with pytest.raises(ChoiceError, match=re.escape("backend='gloo' records a run of each rank")):
        fx_ranks(tensor_parallel, inputs(), world_size=2, backend="gloo", frontend="aot")
