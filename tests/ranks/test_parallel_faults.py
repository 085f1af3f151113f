"""Broken parallel programs are found, and right ones are not accused. Their author had not read the checks."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from fixtures.parallel_faults import BROKEN
from fixtures.process_groups import needs_fake_group
from fixtures.process_groups import training_forks as training_forks
from fixtures.right_parallel_programs import RIGHT
from pytest_fxgraph.errors import CheckError, RanksError

pytestmark = [
    needs_fake_group,
    pytest.mark.usefixtures("training_forks"),
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="this torch has no gloo"),
]

# Right programs, and faults of both checks, that each run examines; the slow step runs all.
SAMPLE = {"tensor_parallel", "uneven_shards", "dtensor_layers"}
SAMPLE |= {"input_gradient_not_summed", "same_draws_on_shards", "roots_disagree", "gradients_averaged_twice"}


def every(cases):
    return [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in cases]


def inputs_of(case, rank):
    values = case.inputs()
    return tuple(value.chunk(case.world_size)[rank] for value in values) if case.batch else values


def compare(case, fx_equivalence, timeout):
    modes = ("train",) if case.train else ("eval",)
    options = {"grads": case.grads, "batch": case.batch, "modes": modes, "timeout": timeout}
    fx_equivalence(case.plain(), case.inputs(), ranks=case.world_size, build=case.build, **options)


def captured(case, fx_ranks):
    return fx_ranks(case.build, lambda rank: inputs_of(case, rank), world_size=case.world_size)


def examine(programs, case, fx_equivalence, timeout):
    programs.assert_matching_collectives()
    compare(case, fx_equivalence, timeout)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("name", every(RIGHT))
def test_a_right_program_is_not_accused(fx_ranks, fx_equivalence, name):
    examine(captured(RIGHT[name], fx_ranks), RIGHT[name], fx_equivalence, 200)


@pytest.mark.sampled(every=4, start=3)
@pytest.mark.parametrize("name", every(BROKEN))
def test_a_broken_program_is_found(fx_ranks, fx_equivalence, name):
    programs = captured(BROKEN[name], fx_ranks)
    with pytest.raises((CheckError, RanksError)):
        examine(programs, BROKEN[name], fx_equivalence, 8)
