"""Groups of processes and reductions among values."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fixtures.process_groups import fake_group, needs_fake_group
from fxcore.node_data.distributed_types import (
    is_distributed,
    is_process_group,
    is_reduction,
    process_groups_of,
    reduction_source,
)

pytestmark = needs_fake_group


class Holder(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group, self.number = group, 1


def test_groups_of_a_module_and_its_parts_are_found():
    with fake_group():
        group = torch.distributed.group.WORLD
        model = nn.Sequential(Holder(group), Holder(None))
        model.own = group

        assert process_groups_of(model) == [group, group]
        assert is_process_group(group)
        assert not is_process_group(model)


def test_a_program_without_groups_has_none():
    assert process_groups_of(Holder(None)) == []


@pytest.mark.parametrize("name", ["SUM", "MAX"])
def test_a_reduction_is_written_by_its_name(name):
    reduction = getattr(torch.distributed.ReduceOp, name)

    assert is_reduction(reduction)
    assert reduction_source(reduction) == f"torch.distributed.ReduceOp.{name}"
    assert not is_reduction(name)


def test_a_group_of_a_run_that_is_over_is_not_found():
    with fake_group():
        model = Holder(torch.distributed.group.WORLD)

    assert process_groups_of(model) == []


def test_a_tensor_with_placements_and_a_mesh_is_a_distributed_one():
    tensors = [torch.ones(1), torch.ones(1), torch.ones(1), torch.ones(1)]
    tensors[1].placements = tensors[3].placements = ()
    tensors[2].device_mesh = tensors[3].device_mesh = None
    holder = Holder(None)
    holder.placements = holder.device_mesh = ()

    assert [is_distributed(value) for value in (*tensors, holder)] == [False, False, False, True, False]
