"""A model that some jobs wrap, as torch.nn.DataParallel does: every path then begins with `module.`"""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it."""
        return torch.relu(self.linear(x))


class Wrapped(nn.Module):
    """Holds a model and does what it does."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pass the call on."""
        return self.module(x)
