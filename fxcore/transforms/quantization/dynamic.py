"""Dynamic quantization: weights are integers, and every run computes the scales of its activations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.ao.nn.quantized.dynamic as nnqd
from torch import nn
from torch.ao.quantization import QConfig

from fxcore.graph_module import GraphModule
from fxcore.passes.infra.pass_base import PassBase
from fxcore.passes.infra.working_copy import working_copy
from fxcore.transforms.quantization.layers import Skip
from fxcore.transforms.quantization.observers import MakeObserver, weight_observer
from fxcore.transforms.quantization.static import QuantizationResult, refuse_without_engine, replaced_layers, result_of

__all__ = ["QuantizeDynamic"]

_RECURRENT: dict[type[nn.Module], Any] = {
    nn.LSTM: nnqd.LSTM,
    nn.GRU: nnqd.GRU,
    nn.LSTMCell: nnqd.LSTMCell,
    nn.GRUCell: nnqd.GRUCell,
    nn.RNNCell: nnqd.RNNCell,
}


@dataclass(frozen=True)
class QuantizeDynamic(PassBase):
    """Replaces linear and recurrent layers by torch's dynamic quantized layers. Needs no examples. For the CPU.

    `weight` makes observers of weights. `skip` names layers that stay in floating point.
    """

    weight: MakeObserver = field(default_factory=lambda: weight_observer("per_tensor"))
    skip: Skip = field(default_factory=Skip)

    def call(self, graph_module: GraphModule) -> QuantizationResult:
        """Return a new module. Raises PassError if this build of torch computes with no quantized layers."""
        refuse_without_engine("quantize dynamically", "quantize the weights alone, with QuantizeWeights")
        made = working_copy(graph_module)
        return result_of(
            made, graph_module, replaced_layers(made, (nn.Linear, *_RECURRENT), self.skip, self._replacement)
        )

    def _replacement(self, layer: nn.Module) -> nn.Module | str:
        make: Callable[[Any, MakeObserver], nn.Module] = _recurrent if type(layer) in _RECURRENT else _linear
        return _reason_against(layer) or make(layer, self.weight)


def _reason_against(layer: nn.Module) -> str | None:
    weight = next(layer.parameters())
    if weight.dtype is not torch.float32:
        return f"its weight is of {weight.dtype}; only that of torch.float32 is quantized"
    if type(layer) in _RECURRENT and not layer.bias:
        return "it has no bias, and torch quantizes recurrent layers with bias alone"
    if getattr(layer, "proj_size", 0):
        return "it projects its hidden state, and torch's quantized layers do not"
    return None


def _recurrent(layer: Any, make_observer: MakeObserver) -> nn.Module:
    with_settings = copy.copy(layer)  # `layer` itself gets no qconfig
    with_settings.qconfig = QConfig(activation=nn.Identity, weight=make_observer)  # type: ignore[no-untyped-call]
    made: nn.Module = _RECURRENT[type(layer)].from_float(with_settings)
    return made.train(layer.training)


def _linear(layer: nn.Linear, make_observer: MakeObserver) -> nn.Module:
    weight, observer = layer.weight.detach(), make_observer()
    observer(weight)
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (torch.per_channel_affine, torch.per_channel_symmetric):
        integers = torch.quantize_per_channel(weight, scale.double(), zero_point, observer.ch_axis, observer.dtype)
    else:
        integers = torch.quantize_per_tensor(weight, float(scale), int(zero_point), observer.dtype)
    kind: Any = nnqd.Linear
    made = kind(layer.in_features, layer.out_features, dtype=observer.dtype)
    made.set_weight_bias(integers, None if layer.bias is None else layer.bias.detach())
    return made.train(layer.training)  # type: ignore[no-any-return]  # torch.ao is not typed
