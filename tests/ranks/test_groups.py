"""Ranks are grouped by their graphs, up to constants that depend on the rank."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

from fixtures.process_groups import needs_fake_group
from pytest_fxgraph.errors import CollectiveError
from pytest_fxgraph.ranks.groups import RankConstant

pytestmark = needs_fake_group


class Model(nn.Module):
    """Runs a function of the rank and the input."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.offset = torch.tensor([float(dist.get_rank()), 1.0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(dist.get_rank(), x, self)


def programs_of(fx_ranks, function, frontend="make_fx"):
    return fx_ranks(lambda rank: Model(function), torch.ones(8, 8), world_size=4, frontend=frontend)


@pytest.mark.parametrize(
    ("function", "constants"),
    [
        (lambda rank, x, model: x * rank, ["%mul argument 1 is 0, 1, 2, 3"]),
        (lambda rank, x, model: x[:, :2] + model.offset, ["self._tensor_constant0 contents are [0.0, 1.0], [1.0, 1.0], "
                                                         "[2.0, 1.0], [3.0, 1.0]"]),
        (lambda rank, x, model: x.chunk(4)[rank], ["%output argument 0 is %getitem, %getitem_1, %getitem_2, "
                                                   "%getitem_3"]),
        (lambda rank, x, model: x[:, rank : rank + 2], ["%slice_1 argument 2 is 0, 1, 2, 3",
                                                        "%slice_1 argument 3 is 2, 3, 4, 5"]),
    ],
)  # fmt: skip
def test_numbers_and_contents_are_constants_of_the_rank(fx_ranks, function, constants):
    programs = programs_of(fx_ranks, function)
    programs.assert_spmd()
    assert [each.text for each in programs.groups[0].constants] == constants


@pytest.mark.parametrize("frontend", ["make_fx", "symbolic"])
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda rank, x, model: x.sum(rank % 2), "0"),
        (lambda rank, x, model: torch.softmax(x, rank % 2), "dim|argument 2"),
        (lambda rank, x, model: x.sum(0, keepdim=rank % 2 == 1), "True"),
        (lambda rank, x, model: x[: rank % 2 + 1] * 2, "slice"),
        (lambda rank, x, model: (x * rank).relu() if rank % 2 else (x * rank).sin(), "relu"),
    ],
)
def test_dimensions_booleans_shapes_and_branches_are_differences(fx_ranks, frontend, function, words):
    programs = programs_of(fx_ranks, function, frontend)
    assert [group.ranks for group in programs.groups] == [(0, 2), (1, 3)]
    with pytest.raises(CollectiveError, match=f"2 different graphs: ranks 0, 2; ranks 1, 3\nrank 1 .*(?:{words})"):
        programs.assert_spmd()


def test_values_of_many_ranks_are_short():
    many = RankConstant("%lt", "argument 1", tuple(str(3 * rank) for rank in range(1000)))
    assert many.text == "%lt argument 1 is 0 to 2997 by 3"
    assert RankConstant("self.mask", "contents", ("[" + "1, " * 40, "[]")).text == "self.mask contents differ"
