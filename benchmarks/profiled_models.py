"""The models whose profiles and rooflines stand in docs/passes/cost.md, for `python -m fxcore.profile`."""

from __future__ import annotations

import importlib

import torch
from torch import nn

from fixtures.models.gpt_like import GptLike


def resnet50() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Return pytorchcv's ResNet-50 and one image."""
    torch.manual_seed(0)
    return importlib.import_module("pytorchcv.models.resnet").resnet50(), (torch.rand(1, 3, 224, 224),)


def gpt_like() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """Return a decoder of 6 layers and a sentence of 128 tokens."""
    torch.manual_seed(0)
    model = GptLike(layers=6, width=384, heads=6, context=128, tokens=5000)
    return model, (torch.randint(0, 5000, (1, 128)),)
