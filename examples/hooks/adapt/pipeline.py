"""Models of this project are kept in pipelines, which are no modules themselves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


class Scorer(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.score = nn.Linear(8, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return a score for each row."""
        return self.score(torch.relu(self.hidden(features)))


@dataclass
class Pipeline:
    """A model and what the project needs to know about it."""

    name: str
    model: nn.Module
