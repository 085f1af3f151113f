"""Models, and what a change that nobody wanted makes of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from fixtures.models.gpt_like import DecoderBlock, GptLike


class ChangedBlock(DecoderBlock):
    """A block whose activation was replaced, and in which somebody put a copy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x)).contiguous()
        return x + self.down(torch.relu(self.up(self.ln_2(x))))


def decoder(*, is_changed: bool, layers: int) -> GptLike:
    """Return the model; the change is in one of its blocks."""
    torch.manual_seed(0)
    model = GptLike(layers=layers)
    if is_changed:
        model.blocks[7].__class__ = ChangedBlock
    return model.eval()


class Encoder(nn.Module):
    """Layers one after the other, one of which may be wider."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Linear(64, 128)
        self.layers = nn.Sequential(*[Mlp(128, 512 if place != 2 else hidden) for place in range(4)])
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(x)).mean(1))


class Mlp(nn.Module):
    """Two layers around an activation, with a residual."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))
