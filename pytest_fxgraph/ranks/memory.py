"""The memory that a rank holds between steps: parameters, buffers, gradients and the optimizer's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.captures.state_names import tensor_parts
from pytest_fxgraph.errors import ChoiceError

# Tensors like the parameter that an optimizer keeps for each parameter: a momentum, or Adam's two averages.
# Source: torch.optim.SGD, Adam and AdamW, which call `torch.zeros_like(parameter)`. Adam's count of steps is left out.
OPTIMIZERS: Mapping[str, int] = {"sgd": 0, "sgd_momentum": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class StateMemory:
    """The bytes of a rank's state. A rank counts its own parts of distributed tensors alone."""

    parameters: int = 0  # and buffers
    gradients: int = 0
    optimizer: int = 0


def check_optimizer(optimizer: str | None, mode: str | None) -> None:
    """Raise ChoiceError for an unknown optimizer, or an optimizer without a training step."""
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise ChoiceError(f"there is no optimizer {optimizer!r}; there are {', '.join(map(repr, OPTIMIZERS))}")
    if optimizer is not None and mode != "train":
        raise ChoiceError(f"optimizer={optimizer!r} belongs to a training step; give mode='train', too")


def state_memory(model: Any, *, is_training: bool, optimizer: str | None) -> StateMemory:
    """Return the memory of a model's state on this rank. Gradients have the sizes of their parameters."""
    if not isinstance(model, nn.Module):
        return StateMemory()
    parameters = [*model.parameters()]
    trained = _bytes([each for each in parameters if each.requires_grad]) if is_training else 0
    states = 0 if optimizer is None else OPTIMIZERS[optimizer]
    return StateMemory(_bytes([*parameters, *model.buffers()]), trained, states * trained)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    parts = [part for tensor in tensors for _, part in tensor_parts(tensor)]
    return sum(int(part.numel()) * part.dtype.itemsize for part in parts)
