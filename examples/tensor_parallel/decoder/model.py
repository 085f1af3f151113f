"""A decoder as large language models have it, small enough for a test."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH, HIDDEN, HEADS, VOCABULARY = 32, 64, 4, 40


class Attention(nn.Module):
    """Causal attention. The number of heads follows from the width of the projections, which a plan may split."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = [
            projection(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        ]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    """Attention and a gated perceptron, each with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.gate_norm = nn.LayerNorm(WIDTH)
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        y = self.gate_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Two blocks between an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def decoder() -> Decoder:
    """Return the model with fixed weights, the same on every rank."""
    torch.manual_seed(0)
    return Decoder()


def tokens() -> torch.Tensor:
    """Return a batch of two sequences of six tokens."""
    return (torch.arange(12) * 7 % VOCABULARY).reshape(2, 6)
