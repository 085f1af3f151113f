"""Weights as integers of eight or four bits, for models that are slow because their weights are large."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from fxcore.errors import PassArgumentError
from fxcore.graph_module import GraphModule
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.infra.working_copy import Changes
from fxcore.transforms.quantization.layers import QuantizingPass, Skip, layers_to_quantize

__all__ = ["QuantizeWeights", "WeightOnlyLayer"]

_KERNEL_ROWS = 8  # with more rows, torch's kernel is slower than a product of floating numbers
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class QuantizeWeights(QuantizingPass):
    """Keeps weights of convolutions and linear layers as integers, and computes in floating point as before.

    With eight `bits` there is a scale for each channel of the result, unless `group_size` is given; with four, for each
    `group_size` neighbours within a channel (32 if not given). Needs no examples and no engine.
    """

    bits: Literal[8, 4] = 8
    group_size: int | None = None
    skip: Skip = field(default_factory=Skip)

    def rewrite(self, made: GraphModule) -> Changes:
        """Replace the layers. Raises PassArgumentError for other numbers of bits."""
        if self.bits not in (4, 8) or (self.group_size is not None and self.group_size < 1):
            raise PassArgumentError(
                f"weights of {self.bits} bits in groups of {self.group_size} cannot be made; give 8 or 4 bits, and "
                "groups of at least one weight"
            )
        group_size = self.group_size if self.group_size is not None or self.bits == 8 else 32
        layers, left = layers_to_quantize(made, _LAYERS, self.skip, lambda layer, calls: None)
        replaced: dict[nn.Module, WeightOnlyLayer] = {}  # a layer that is there twice stays one layer
        for path in layers:
            layer = get_attribute(made, path)
            if layer not in replaced:
                replaced[layer] = WeightOnlyLayer(layer, self.bits, group_size)
            set_attribute(made, path, replaced[layer])
        return list(layers), left


class WeightOnlyLayer(nn.Module):
    """A convolution or linear layer that stores its weight as integers, with a scale for each group of them."""

    integers: torch.Tensor
    scale: torch.Tensor
    bias: nn.Parameter | None

    def __init__(self, layer: nn.Module, bits: int, group_size: int | None) -> None:
        """Take over the settings and bias of `layer`, which stays as it is."""
        super().__init__()
        weight: Any = layer.weight
        self.bits, self.shape = bits, tuple(weight.shape)
        rows = weight.detach().flatten(1)
        size = min(group_size or rows.shape[1], rows.shape[1])
        padded = F.pad(rows, (0, -rows.shape[1] % size)).reshape(len(rows), -1, size).float()
        most = 2 ** (bits - 1) - 1
        scale = (padded.abs().amax(-1, keepdim=True) / most).clamp(min=torch.finfo(torch.float32).tiny)
        integers = (padded / scale).round().clamp(-most, most).to(torch.int8).flatten(1)[:, : rows.shape[1]]
        self.register_buffer("integers", _packed(integers) if bits == 4 else integers.contiguous())
        self.register_buffer("scale", scale.squeeze(-1).to(weight.dtype))
        self.group_size = size
        self.register_parameter("bias", layer.bias)  # type: ignore[arg-type]  # None, or a parameter
        # The settings of the layer, without its weights.
        shell = copy.copy(layer)
        shell._parameters = dict.fromkeys(layer._parameters)
        object.__setattr__(self, "_shell", shell)
        self.train(layer.training)

    @property
    def weight(self) -> torch.Tensor:
        """The weight in floating point, as it is computed with."""
        columns = math.prod(self.shape[1:])
        integers = _unpacked(self.integers, columns) if self.bits == 4 else self.integers
        scale = self.scale
        if scale.shape[1] > 1:
            scale = scale.repeat_interleave(self.group_size, 1)[:, :columns]
        return (integers.to(scale.dtype) * scale).reshape(self.shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result of the layer."""
        shell: Any = vars(self)["_shell"]
        if not isinstance(shell, nn.Linear):
            return shell._conv_forward(x, self.weight, self.bias)  # type: ignore[no-any-return]
        # Sums of a half with unscaled weights could be infinite.
        if self.bits == 4 or self.scale.shape[1] > 1 or self.scale.dtype is torch.float16:
            return F.linear(x, self.weight, self.bias)
        scale = self.scale[:, 0]
        if self._suits_kernel(x):
            rows = torch._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), self.integers, scale)
            result = rows.reshape(*x.shape[:-1], len(scale))
        else:
            # A scaled result takes a ninth of the time of a scaled weight, for one row of 2,048 numbers.
            result = F.linear(x, self.integers.to(scale.dtype))
            result = result * scale.to(result.dtype)
        return result if self.bias is None else result + self.bias.to(result.dtype)

    def _suits_kernel(self, x: torch.Tensor) -> bool:
        """Return whether torch's kernel for integers takes these rows, and is the fastest way."""
        if type(x) is not torch.Tensor or x.dtype is not torch.bfloat16 or x.device.type != "cpu":
            return False
        needs_gradient = torch.is_grad_enabled() and x.requires_grad
        return not needs_gradient and self.scale.dtype is x.dtype and 0 < x.numel() <= _KERNEL_ROWS * x.shape[-1]

    def extra_repr(self) -> str:
        """Say how the weight is stored."""
        return f"{type(vars(self)['_shell']).__name__}, bits={self.bits}, group_size={self.group_size}"


def _packed(integers: torch.Tensor) -> torch.Tensor:
    """Return two integers from -8 to 7 in each byte."""
    pairs = F.pad(integers, (0, integers.shape[1] % 2)).add(8).to(torch.uint8)
    return pairs[:, 0::2] | (pairs[:, 1::2] << 4)


def _unpacked(packed: torch.Tensor, columns: int) -> torch.Tensor:
    pairs = torch.stack([packed & 15, packed >> 4], -1)
    return pairs.flatten(1)[:, :columns].to(torch.int8) - 8
