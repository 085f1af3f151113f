"""Dynamic quantization: weights are integers, and every run computes the scales of its activations."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch.ao.nn.quantized.dynamic as nnqd
from torch import nn
from torch.ao.quantization import QConfig

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.infra.working_copy import Changes
from fxcore.transforms.quantization.layers import (
    QuantizingPass,
    Skip,
    layers_to_quantize,
    refuse_without_engine,
    weight_is_not_float32,
)
from fxcore.transforms.quantization.observers import MakeObserver, weight_observer

__all__ = ["QuantizeDynamic"]

_NAMES = ("Linear", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")
_QUANTIZED: dict[type[nn.Module], Any] = {getattr(nn, name): getattr(nnqd, name) for name in _NAMES}


@dataclass(frozen=True)
class QuantizeDynamic(QuantizingPass):
    """Replaces linear and recurrent layers by torch's dynamic quantized layers. Needs no examples. For the CPU.

    `weight` makes observers of weights. `skip` names layers that stay in floating point.
    """

    weight: MakeObserver = field(default_factory=lambda: weight_observer("per_tensor"))
    skip: Skip = field(default_factory=Skip)

    def rewrite(self, made: GraphModule) -> Changes:
        """Replace the layers. Raises PassError if this build of torch computes with no quantized layers."""
        refuse_without_engine("quantize dynamically", "quantize the weights alone, with QuantizeWeights")
        layers, left = layers_to_quantize(made, _QUANTIZED, self.skip, _reason_against)
        for path in layers:
            layer = get_attribute(made, path)
            with_settings = copy.copy(layer)  # `layer` itself gets no qconfig
            with_settings.qconfig = QConfig(activation=nn.Identity, weight=self.weight)  # type: ignore[no-untyped-call]
            set_attribute(made, path, _QUANTIZED[type(layer)].from_float(with_settings).train(layer.training))
        return list(layers), left


def _reason_against(layer: Any, calls: list[Node]) -> str | None:
    if not isinstance(layer, nn.Linear) and not layer.bias:
        return "it has no bias, and torch quantizes recurrent layers with bias alone"
    if getattr(layer, "proj_size", 0):
        return "it projects its hidden state, and torch's quantized layers do not"
    return weight_is_not_float32(layer)
