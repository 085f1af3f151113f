"""Ten small models, as a benchmark suite has them."""

from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Logs(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        print("mean", float(y.shape[0]))
        return x + y


class Clips(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        limit = y.abs().max().item()
        return x + y / limit


class Skips(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        if y.sum() > 0:
            return x + y
        return x


class Repeats(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(3):
            x = x + self.body(x)
            print(step)
        return x


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))


def conv() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.ReLU(), nn.Flatten())


def norm() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.Softmax(dim=-1))


def encoder() -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 8)), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))


def gated() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GLU(), nn.Linear(8, 8))


MODELS = {
    "clips": Clips,
    "conv": conv,
    "encoder": encoder,
    "gated": gated,
    "logs": Logs,
    "mlp": mlp,
    "norm": norm,
    "repeats": Repeats,
    "residual": Residual,
    "skips": Skips,
}


def inputs() -> tuple[torch.Tensor]:
    return (torch.linspace(-1, 1, 16).reshape(2, 8),)
