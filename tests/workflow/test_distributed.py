"""A model of several processes has one golden, which holds on each of them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.nn import functional as F

from fixtures.process_groups import fake_group, needs_fake_group, rows_and_columns

pytestmark = needs_fake_group


class ParallelMLP(nn.Module):
    """A perceptron whose hidden units are split over the processes of a row, and its batch over those of a column."""

    def __init__(self, row: dist.ProcessGroup, column: dist.ProcessGroup) -> None:
        super().__init__()
        self.row, self.column = row, column
        self.up = nn.Linear(8, 16 // row.size())
        self.down = nn.Linear(16 // row.size(), 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        partial = self.down(F.gelu(self.up(x)))
        y = collectives.wait_tensor(torch.ops._c10d_functional.all_reduce(partial, "sum", self.row.group_name))
        dist.all_reduce(y, op=dist.ReduceOp.AVG, group=self.column)
        return x + y


def test_one_golden_holds_on_every_rank(fx_golden):
    for rank in range(4):
        with fake_group(rank):
            assert ParallelMLP(*rows_and_columns(rank)) == fx_golden(name="rank", example_inputs=(torch.rand(2, 8),))
