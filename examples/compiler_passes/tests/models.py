"""Models that have what the passes look for."""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x + self.first(x) * 0.5)
        return torch.relu(y + self.second(y))


class SumReadTwice(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x + y
        return torch.relu(total) - total


class Negations(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        negated = -x
        return torch.sin(-negated) - torch.neg(negated)
