"""`fx_ranks`: one program on many ranks is one subject."""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fixtures.parallel_plans import data_parallel, fully_sharded, inputs, plain, tensor_parallel, two_dimensions
from fixtures.process_groups import needs_fake_group
from pytest_fxgraph import capture_ranks
from pytest_fxgraph.errors import ChoiceError, CollectiveError

pytestmark = needs_fake_group


def test_ranks_of_a_tensor_parallel_model_run_one_graph(fx_ranks):
    programs = fx_ranks(tensor_parallel, inputs(), world_size=4)
    assert [group.ranks for group in programs.groups] == [(0, 1, 2, 3)]
    programs.assert_spmd()
    programs.assert_matching_collectives()
    found = programs.collectives.of_rank(3)
    assert [each.text for each in found] == ["all_reduce(sum) of float32[2, 8, 16] on tp"] * 2
    assert {each.bytes for each in found} == {2 * 8 * 16 * 4}


def test_placements_and_the_world_stand_in_the_golden(fx_ranks, fx_golden):
    assert fx_ranks(tensor_parallel, inputs(), world_size=4) == fx_golden


class SometimesReduced(nn.Module):
    """Reduces on even ranks only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() % 2 == 0:
            dist.all_reduce(x)
        return x


def test_a_collective_that_some_ranks_leave_out_is_a_deadlock(fx_ranks):
    programs = fx_ranks(lambda rank: SometimesReduced(), inputs(), world_size=4)
    with pytest.raises(CollectiveError, match=r"ranks 0, 2 wait in all_reduce\(sum\) .* for ranks 1, 3"):
        programs.assert_matching_collectives()
    with pytest.raises(CollectiveError, match=r"2 different graphs: ranks 0, 2; ranks 1, 3"):
        programs.assert_spmd()


def test_a_mesh_is_handed_to_a_builder_of_two_arguments(fx_ranks):
    seen = []

    def build(rank, mesh):
        seen.append((rank, mesh.mesh_dim_names, tuple(mesh.get_coordinate())))
        return plain()

    fx_ranks(build, inputs(), world_size=4, mesh={"dp": 2, "tp": 2}, ranks=[1, 2])
    assert seen == [(1, ("dp", "tp"), (0, 1)), (2, ("dp", "tp"), (1, 0))]


def ranks_of(fx_ranks, **options):
    return [*fx_ranks(lambda rank: plain(), inputs(), **options).programs]


@pytest.mark.fx(world_size=2)
class TestMarked:
    """A marker gives the ranks."""

    def test_of_a_class(self, fx_ranks):
        assert ranks_of(fx_ranks) == [0, 1]
        assert ranks_of(fx_ranks, world_size=3) == [0, 1, 2]

    @pytest.mark.fx(world_size=1)
    def test_of_the_test(self, fx_ranks):
        assert ranks_of(fx_ranks) == [0]

    def test_arguments_replace_all_of_it(self, fx_ranks):
        assert ranks_of(fx_ranks, mesh=(2, 2), ranks=[3]) == [3]


@pytest.mark.fx(mesh={"dp": 2, "tp": 2})
def test_the_ranks_follow_from_the_mesh_of_a_marker(fx_ranks):
    programs = fx_ranks(lambda rank, mesh: plain(), inputs(), ranks=[3])
    assert programs.world.text == "4 ranks, mesh dp=2, tp=2"


def test_a_call_without_ranks_is_refused(fx_ranks):
    with pytest.raises(ChoiceError, match=re.escape("or for a test by @pytest.mark.fx(world_size=4)")):
        fx_ranks(tensor_parallel, inputs())


def test_a_script_captures_ranks_by_a_function():
    assert ranks_of(capture_ranks, world_size=2) == [0, 1]


def test_wrong_numbers_are_refused(fx_ranks):
    with pytest.raises(ChoiceError, match=re.escape("a mesh of 2 x 3 has 6 ranks, and the program has 4")):
        fx_ranks(tensor_parallel, inputs(), world_size=4, mesh=(2, 3))
    with pytest.raises(ChoiceError, match=re.escape("ranks=[4]: there are the ranks 0 to 3")):
        fx_ranks(tensor_parallel, inputs(), world_size=4, ranks=[4])
    with pytest.raises(ChoiceError, match="ranks='some': expected 'all' or numbers of ranks such as"):
        fx_ranks(tensor_parallel, inputs(), world_size=4, ranks="some")


def test_another_backend_is_refused_with_those_that_there_are(fx_ranks):
    with pytest.raises(ChoiceError, match=r"no backend 'nccl'; there are 'fake', .* and 'gloo', with a process"):
        fx_ranks(tensor_parallel, inputs(), world_size=2, backend="nccl")


def test_a_loss_without_a_training_step_is_refused(fx_ranks):
    with pytest.raises(ChoiceError, match=re.escape("loss= is for a training step: give mode='train'")):
        fx_ranks(tensor_parallel, inputs(), world_size=2, loss=torch.sum)


def test_the_process_is_no_rank_afterwards(fx_ranks):
    fx_ranks(tensor_parallel, inputs(), world_size=2, ranks=[1])
    assert not dist.is_initialized()


@pytest.mark.sampled(every=4, start=3)
@pytest.mark.parametrize("plan", [tensor_parallel, fully_sharded, two_dimensions, data_parallel])
def test_ranks_of_a_training_step_run_one_graph(fx_ranks, plan):
    programs = fx_ranks(plan, inputs(), world_size=4, mode="train")
    programs.assert_spmd()
    programs.assert_matching_collectives()
    of_gradients = [each for each in programs.collectives.of_rank(0) if each.kind in ("reduce_scatter", "all_reduce")]
    assert of_gradients
    assert all(each.reduction in ("sum", "avg") for each in of_gradients)


def test_the_methods_of_process_groups_are_the_same_afterwards(fx_ranks):
    before = dict(vars(dist.ProcessGroup))
    fx_ranks(tensor_parallel, inputs(), world_size=2, ranks=[0])
    after = vars(dist.ProcessGroup)
    assert [name for name in before if after[name] is not before[name]] == []
