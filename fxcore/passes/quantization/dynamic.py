"""Dynamic quantization: weights are integers, scales of activations are found in every run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.ao.nn.quantized.dynamic as nnqd
from torch import nn

from fxcore.errors import PassError
from fxcore.graph_module import GraphModule
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.fusion.report import Left
from fxcore.passes.infra.pass_base import PassBase
from fxcore.passes.infra.working_copy import rebuilt, working_copy
from fxcore.passes.quantization.layers import Skip, reason_to_stay
from fxcore.passes.quantization.observers import MakeObserver, weight_observer
from fxcore.passes.quantization.static import QuantizationReport, QuantizationResult

__all__ = ["QuantizeDynamic"]


@dataclass(frozen=True)
class QuantizeDynamic(PassBase):
    """Replaces `nn.Linear` by torch's dynamic quantized one, which needs no examples; for inference on the CPU.

    `weight` makes observers of weights; `skip` names layers to leave alone.
    """

    weight: MakeObserver = field(default_factory=lambda: weight_observer("per_tensor"))
    skip: Skip = field(default_factory=Skip)

    def call(self, graph_module: GraphModule) -> QuantizationResult:
        """Return a new module. Raises PassError if this build of torch computes with no quantized layers."""
        if torch.backends.quantized.engine in ("none", ""):
            raise PassError(
                "cannot quantize dynamically: this build of torch has no engine for quantized layers; "
                "quantize the weights alone, with QuantizeWeights"
            )
        made = working_copy(graph_module)
        quantized: list[str] = []
        left: list[Left] = []
        for path in dict.fromkeys([str(node.target) for node in made.graph.find_nodes(op="call_module")]):
            layer = get_attribute(made, path)
            if type(layer) is not nn.Linear:
                continue
            reason = reason_to_stay(path, made, self.skip)
            if reason is None and layer.weight.dtype is not torch.float32:
                reason = f"its weight is of {layer.weight.dtype}; only that of torch.float32 is quantized"
            if reason is not None:
                left.append(Left(path, reason))
                continue
            set_attribute(made, path, _dynamic(layer, self.weight()))
            quantized.append(path)
        report = QuantizationReport(tuple(quantized), tuple(left))
        if not quantized:
            return QuantizationResult(graph_module, False, report, graph_module)
        return QuantizationResult(rebuilt(made), True, report, graph_module)


def _dynamic(layer: nn.Linear, observer: Any) -> nn.Module:
    weight = layer.weight.detach()
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
