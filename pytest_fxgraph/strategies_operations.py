"""The operations of which random modules are made: each keeps the one shape, so that any order of them runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

# Batch, channels, height and width of every value.
SHAPE = (2, 4, 6, 6)
_CHANNELS, _WIDTH = SHAPE[1], SHAPE[3]


@dataclass(frozen=True)
class Operation:
    """What one step of a random module does with one or two earlier values."""

    apply: Callable[[Any, Any, Any], Any]  # layer, x, y -> value; the layer is None where there is none
    text: str  # how a reader would write it
    layer: Callable[[], nn.Module] | None = None
    draws: bool = False  # it may draw random numbers
    writes: bool = False  # it writes into an earlier value
    trains: bool = False  # it changes its module in train mode


def _call(layer: Any, x: Any, y: Any) -> Any:
    return layer(x)


def _module(text: str, layer: Callable[[], nn.Module], *, draws: bool = False, trains: bool = False) -> Operation:
    return Operation(_call, text, layer, draws=draws, trains=trains)


def _function(text: str, apply: Callable[[Any, Any], Any], *, draws: bool = False, writes: bool = False) -> Operation:
    return Operation(lambda layer, x, y: apply(x, y), text, draws=draws, writes=writes)


def _swapped_halves(x: Any) -> Any:
    first, second = x.chunk(2, dim=1)
    return torch.cat((second, first), dim=1)


OPERATIONS: dict[str, Operation] = {
    "conv": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1)),
    "conv_without_bias": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 1, bias=False)),
    "depthwise": _module("Conv2d({x})", lambda: nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1, groups=_CHANNELS)),
    "batch_norm": _module("BatchNorm2d({x})", lambda: nn.BatchNorm2d(_CHANNELS), trains=True),
    "group_norm": _module("GroupNorm({x})", lambda: nn.GroupNorm(2, _CHANNELS)),
    "layer_norm": _module("LayerNorm({x})", lambda: nn.LayerNorm(_WIDTH)),
    "linear": _module("Linear({x})", lambda: nn.Linear(_WIDTH, _WIDTH)),
    "relu_module": _module("ReLU({x})", nn.ReLU),
    "dropout": _module("Dropout({x})", lambda: nn.Dropout(0.5), draws=True),
    "max_pool": _module("MaxPool2d({x})", lambda: nn.MaxPool2d(3, 1, 1)),
    "identity": _module("Identity({x})", nn.Identity),
    "relu": _function("torch.relu({x})", lambda x, y: torch.relu(x)),
    "relu_method": _function("{x}.relu()", lambda x, y: x.relu()),
    "gelu": _function("F.gelu({x})", lambda x, y: F.gelu(x)),
    "silu": _function("F.silu({x})", lambda x, y: F.silu(x)),
    "hardtanh": _function("F.hardtanh({x}, -1.0, 2.0)", lambda x, y: F.hardtanh(x, -1.0, 2.0)),
    "clamp": _function("{x}.clamp(min=-1.0)", lambda x, y: x.clamp(min=-1.0)),
    "tanh": _function("torch.tanh({x})", lambda x, y: torch.tanh(x)),
    "sigmoid": _function("torch.sigmoid({x})", lambda x, y: torch.sigmoid(x)),
    "softmax": _function("F.softmax({x}, dim=-1)", lambda x, y: F.softmax(x, dim=-1)),
    "neg": _function("-{x}", lambda x, y: -x),
    "add": _function("{x} + {y}", lambda x, y: x + y),
    "add_scaled": _function("torch.add({x}, {y}, alpha=0.5)", lambda x, y: torch.add(x, y, alpha=0.5)),
    "sub": _function("{x} - {y}", lambda x, y: x - y),
    "mul_bounded": _function("{x} * torch.tanh({y})", lambda x, y: x * torch.tanh(y)),
    "mul_number": _function("{x} * 0.5", lambda x, y: x * 0.5),
    "add_zero": _function("{x} + 0", lambda x, y: x + 0),
    "mul_one": _function("1 * {x}", lambda x, y: 1 * x),
    "div": _function("{x} / 1.5", lambda x, y: x / 1.5),
    "maximum": _function("torch.maximum({x}, {y})", lambda x, y: torch.maximum(x, y)),
    "where": _function("torch.where({x} > 0, {x}, {y})", lambda x, y: torch.where(x > 0, x, y)),
    "matmul": _function("torch.matmul(F.softmax({x}, -1), {y})", lambda x, y: torch.matmul(F.softmax(x, -1), y)),
    "centre": _function("{x} - {x}.mean(1, keepdim=True)", lambda x, y: x - x.mean(1, keepdim=True)),
    "transpose": _function("{x}.transpose(2, 3)", lambda x, y: x.transpose(2, 3)),
    "permute": _function("{x}.permute(0, 1, 3, 2).contiguous()", lambda x, y: x.permute(0, 1, 3, 2).contiguous()),
    "flatten": _function(f"{{x}}.flatten(1).view{SHAPE}", lambda x, y: x.contiguous().flatten(1).view(SHAPE)),
    "swap_halves": _function("torch.cat({x}.chunk(2, dim=1)[::-1], dim=1)", lambda x, y: _swapped_halves(x)),
    "cat_slice": _function("torch.cat([{x}, {y}], 1)[:, 2:6]", lambda x, y: torch.cat([x, y], 1)[:, 2:6]),
    "dropout_function": _function("F.dropout({x})", lambda x, y: F.dropout(x), draws=True),
    "noise": _function("{x} + torch.rand_like({x})", lambda x, y: x + torch.rand_like(x), draws=True),
    "add_in_place": _function("{x}.add_(0.25)", lambda x, y: x.add_(0.25), writes=True),
    "relu_in_place": _function("torch.relu_({x})", lambda x, y: torch.relu_(x), writes=True),
}


def usable_operations(*, random: bool, mutation: bool, training_state: bool) -> list[str]:
    """List the operations that do no more than what is allowed."""
    return [
        name
        for name, operation in OPERATIONS.items()
        if (random or not operation.draws)
        and (mutation or not operation.writes)
        and (training_state or not operation.trains)
    ]
