"""The costs of plans: FLOPs, memory and bytes sent of a rank."""

from __future__ import annotations

import functools

import pytest
import torch.distributed as dist
from torch import nn

from fixtures import parallel_plans
from fixtures.decoder_plans import EIGHT_HEADS, tensor_parallel, tokens
from fixtures.process_groups import needs_fake_group
from pytest_fxgraph.captures.costs import cost_block, costs_of_captured
from pytest_fxgraph.goldens.table_columns import differences
from pytest_fxgraph.ranks.fixture import FxRanks
from pytest_fxgraph.ranks.rank_program import StateMemory

pytestmark = needs_fake_group

_PARAMETERS = sum(each.numel() * 4 for each in parallel_plans.plain().parameters())


@functools.cache
def programs_of(plan, mode="train"):
    optimizer = "adam" if mode == "train" else None
    built = getattr(parallel_plans, plan)
    return FxRanks()(built, parallel_plans.inputs(), world_size=4, ranks=[0, 1], mode=mode, optimizer=optimizer)


def test_data_parallel_ranks_hold_all_and_average_all_gradients():
    (cost,) = programs_of("data_parallel").cost
    assert cost.ranks == (0, 1)
    assert cost.state == StateMemory(_PARAMETERS, _PARAMETERS, 2 * _PARAMETERS)
    assert cost.sent == {("all_reduce", "4_ranks"): 2 * _PARAMETERS * 3 // 4}


@pytest.mark.slow
def test_sharded_ranks_hold_a_part_and_send_parameters_and_gradients():
    (cost,) = programs_of("fully_sharded").cost
    part = _PARAMETERS // 4
    assert cost.state == StateMemory(part, part, 2 * part)
    assert cost.sent["reduce_scatter", "dp"] == part * 3
    assert cost.flops > programs_of("data_parallel", mode="eval").cost[0].flops
    assert "all_gather dp" in str(programs_of("fully_sharded").cost)


def test_gradients_are_counted_once():
    programs = programs_of("tensor_parallel")
    with_gradients = cost_block(costs_of_captured(programs.programs[0].readable)).peak_activation
    assert programs.cost[0].activations < with_gradients


def test_a_table_tells_each_rank_and_the_memory_in_all():
    costs = programs_of("data_parallel", mode="eval").cost
    (cost,) = costs
    head, row = str(costs).splitlines()
    assert head.split() == ["ranks", "FLOPs", "parameters", "gradients", "optimizer", "activations", "memory"]
    assert row.split() == ["0-1", f"{cost.flops:,}", f"{_PARAMETERS:,}", "0", "0", f"{cost.activations:,}",
                           f"{_PARAMETERS + cost.activations:,}"]  # fmt: skip


class Stage(nn.Module):
    """The first stage is wide, the second one narrow."""

    def __init__(self, rank):
        super().__init__()
        self.layer = nn.Linear(16, 8 if rank else 64)

    def forward(self, x):
        return self.layer(x)


def test_a_row_has_the_largest_number_of_any_rank(fx_ranks):
    programs = fx_ranks(lambda rank: Stage(dist.get_rank()), parallel_plans.inputs(), world_size=2)
    wide, narrow = programs.cost
    assert programs.cost.largest["flops"] == wide.flops == 8 * narrow.flops
    assert programs.cost.largest["memory_parameters"] == (16 * 64 + 64) * 4


@pytest.mark.parametrize("plan", ["data_parallel", "tensor_parallel"])
def test_a_plan_has_a_row_in_a_table(plan, fx_table):
    tolerance = {"nodes": "10%", "operators": "10%", "bytes": "10%"}  # releases of torch differ in views and copies
    assert programs_of(plan, mode="eval") == fx_table(row=plan, tolerance=tolerance)


def test_a_row_may_differ_by_its_tolerance_alone():
    golden = programs_of("tensor_parallel", mode="eval").cost.largest
    worse = {**golden, "sent_bytes_all_reduce_tp": golden["sent_bytes_all_reduce_tp"] * 2, "memory_parameters": 1}
    assert [*differences(golden, worse, {"memory_parameters": "100%"}, {})] == [
        "sent_bytes_all_reduce_tp 3072 -> 6144, which is worse"
    ]


def test_a_plan_has_a_golden_of_costs(fx_golden):
    assert programs_of("data_parallel", mode="eval") == fx_golden(level="cost", budget={"flops": "+1%"})


@pytest.mark.slow
def test_a_capture_grows_with_the_layers_by_the_same_nodes_and_bytes():
    counts, sent = [], []
    for layers in (1, 2, 3):
        sizes = EIGHT_HEADS.__class__(**{**vars(EIGHT_HEADS), "layers": layers})
        programs = FxRanks()(tensor_parallel(sizes), tokens(length=8), world_size=8, ranks=[0])
        counts.append(len(programs.graphs[0].graph.nodes))
        sent.append(programs.cost[0].sent["all_reduce", "tp"])
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0
    assert sent[2] - sent[1] == sent[1] - sent[0] > 0
