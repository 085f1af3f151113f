"""Models of any size whose tracing grows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Layers(nn.Module):
    """n leaf modules in a row."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU() for _ in range(count)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Parameters(nn.Module):
    """n parameters, read one after the other."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(count)])

    def forward(self, x: Any) -> Any:
        for value in self.values:
            x = x + value
        return x


class _AddsAConstant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("constant", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        return x + self.constant


class Constants(nn.Module):
    """n submodules with a constant tensor each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = nn.ModuleList([_AddsAConstant() for _ in range(count)])

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


class DenseSkips(nn.Module):
    """n blocks, each of which reads the results of all before; the arguments alone are n * n / 2."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Any) -> Any:
        results = [x]
        for _ in range(self.count):
            results.append(torch.cat(results, 1))
        return results[-1]
