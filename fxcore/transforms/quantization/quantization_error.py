"""The loss by quantization: noise per layer, the layers with the largest loss, and the size of the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.state.packed_parameters import packed_tensors
from fxcore.transforms.quantization.layers import Skip
from fxcore.transforms.quantization.static import ObservedRun, fused, quantizable

__all__ = ["LayerError", "layer_errors", "sensitivity", "sqnr", "state_bytes"]


def sqnr(expected: torch.Tensor, obtained: torch.Tensor) -> float:
    """Return the ratio of signal to quantization noise in decibels: infinite for equal values."""
    expected, obtained = (_floating(value) for value in (expected, obtained))
    noise = (expected - obtained).square().sum().item()
    signal = expected.square().sum().item()
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def _floating(value: torch.Tensor) -> torch.Tensor:
    return (value.dequantize() if value.is_quantized else value).detach().double()


@dataclass(frozen=True)
class LayerError:
    """The loss at one layer, or the loss by quantizing that layer alone."""

    path: str
    sqnr: float  # decibels

    def __str__(self) -> str:
        return f"{self.path}: {self.sqnr:.1f} dB"


def _values_of_calls(gm: GraphModule, arguments: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """Run a graph, and return the result of each call of a module."""
    values: dict[str, torch.Tensor] = {}

    def keep(node: Node, value: Any) -> None:
        if node.op == "call_module" and isinstance(value, torch.Tensor):
            calls = sum(key.partition("@")[0] == node.target for key in values)
            # A copy, because later nodes may work in place.
            values[f"{node.target}@{calls}" if calls else str(node.target)] = _floating(value).clone()

    with torch.no_grad():
        ObservedRun(gm, keep).run(*arguments)
    return values


def layer_errors(float_module: GraphModule, quantized: GraphModule, example: Any) -> list[LayerError]:
    """Compare the results of every module that both graphs call, in the order of the graph.

    `float_module` is the float module of a quantization's result, with the same layers fused. Errors add up along the
    graph; `sensitivity` measures the loss by each layer alone.
    """
    arguments = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    expected, obtained = (_values_of_calls(gm, arguments) for gm in (float_module, quantized))
    return [LayerError(path, sqnr(value, obtained[path])) for path, value in expected.items() if path in obtained]


def sensitivity(
    gm: GraphModule,
    quantize: Callable[[Skip], Callable[[GraphModule], Any]],
    example: Any,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> list[LayerError]:
    """Quantize every layer alone and measure the output. The layer with the largest loss comes first.

    `quantize` returns a pass that skips the layers of its argument, as `lambda skip: QuantizeStatic(examples,
    skip=skip)`. Leave the first layers of the list in floating point.
    """
    arguments = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    float_module = fused(gm)
    paths = list(quantizable(float_module, Skip())[0])
    found = []
    with torch.no_grad():
        expected = _first_tensor(float_module(*arguments))
        for path in progress(paths):
            others = Skip(tuple([_literal(other) for other in paths if other != path]))
            alone = quantize(others)(gm).graph_module
            found.append(LayerError(path, sqnr(expected, _first_tensor(alone(*arguments)))))
    return sorted(found, key=lambda error: error.sqnr)


def _literal(path: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def _first_tensor(value: Any) -> torch.Tensor:
    while isinstance(value, (tuple, list, dict)):
        value = next(iter(value.values() if isinstance(value, dict) else value))
    assert isinstance(value, torch.Tensor)
    return value


def state_bytes(module: nn.Module) -> int:
    """Return the bytes of a model's parameters, buffers and packed weights. A shared tensor counts once."""
    # Keeps the tensors themselves, because a new object may get the id of a deleted one.
    seen: dict[int, torch.Tensor] = {}
    for each in module.modules():
        packed = [tensor for _, tensor in packed_tensors(each)]
        for tensor in (*each._parameters.values(), *each._buffers.values(), *packed):
            if tensor is not None:
                seen[id(tensor)] = tensor
    return sum(map(_bytes_of, seen.values()))


def _bytes_of(tensor: torch.Tensor) -> int:
    if tensor.is_quantized and tensor.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        channels = tensor.q_per_channel_scales()
        return tensor.numel() * tensor.element_size() + channels.numel() * (channels.element_size() + 8)
    return tensor.numel() * tensor.element_size()
