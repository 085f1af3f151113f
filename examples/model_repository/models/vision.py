"""A residual network for images."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions, and the input added to what they give."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of `images`."""
        hidden = torch.relu(self.first_norm(self.first(images)))
        return torch.relu(images + self.second_norm(self.second(hidden)))


class Classifier(nn.Module):
    """A stem, three blocks and a linear layer."""

    def __init__(self, channels: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(3)))
        self.head = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return scores of shape (batch, classes) for images of shape (batch, 3, height, width)."""
        features = self.blocks(torch.relu(self.stem(images)))
        return self.head(features.mean(dim=(2, 3)))
