"""A decoder of tokens, small, with all that large ones have: a context, a causal mask, a cache."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Attention(nn.Module):
    """Causal self-attention that goes on from what earlier calls have left in the cache."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = qkv[0], qkv[1], qkv[2]
        if past is not None:
            key, value = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=past is None)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width)), (key, value)


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        mixed, present = self.attention(self.attention_norm(x), past)
        x = x + mixed
        return x + self.feed_forward(x), present


class Decoder(nn.Module):
    """Scores of the next token at each place, and the cache to go on from."""

    def __init__(self, tokens: int = 64, width: int = 16, heads: int = 2, layers: int = 3, context: int = 32) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(tokens, width)
        self.positions = nn.Embedding(context, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """Return scores of shape (batch, length, tokens); with a cache, `tokens` is the one that follows it."""
        begin = 0 if cache is None else cache[0][0].shape[2]
        end = begin + tokens.shape[1]
        if end > self.context:
            raise ValueError(f"{end} tokens do not fit into a context of {self.context}")
        x = self.embedding(tokens) + self.positions(torch.arange(begin, end))
        presents: Cache = []
        for index, layer in enumerate(self.layers):
            x, present = layer(x, None if cache is None else cache[index])
            presents.append(present)
        return self.norm(x) @ self.embedding.weight.t(), presents
