"""Modules whose parameters get their shapes from the first call."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.rng import seed_all
from pytest_fxgraph.equivalence.state.module_state import modules_by_path
from pytest_fxgraph.equivalence.state.training_mode import TrainingFlags


def initialised(model: Any, arguments: Arguments, seed: int) -> Any:
    """Give the model itself, or, where parts of it have no shapes yet, a copy of it that was called once.

    The first call would change the model, and its lanes must start alike. The caller puts the generators back.
    """
    if not any(isinstance(module, LazyModuleMixin) for _, module in modules_by_path(model)):
        return model
    made = copy.deepcopy(model, _copied_buffers(model))
    training = TrainingFlags(made)
    made.eval()  # what train mode does to buffers is not the first call's to do
    copied = copy_arguments(arguments).arguments
    seed_all(seed)
    with torch.no_grad():
        made(*copied.args, **copied.kwargs)
    training.restore()
    return made


def _copied_buffers(model: nn.Module) -> dict[int, Any]:
    """Copy the buffers without shapes, which deepcopy() does not know how to copy."""
    buffers = [buffer for _, module in modules_by_path(model) for buffer in module._buffers.values()]
    return {
        # torch's stub knows no parameters of this class.
        id(buffer): nn.UninitializedBuffer(device=buffer.device, dtype=buffer.dtype)  # type: ignore[call-arg]
        for buffer in buffers
        if isinstance(buffer, nn.UninitializedBuffer)
    }
