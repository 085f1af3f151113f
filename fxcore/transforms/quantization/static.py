"""Post-training static quantization: scales of activations are found by running examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from fxcore.errors import PassArgumentError, PassError
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.passes.infra.working_copy import Changes
from fxcore.state.snapshot import state_kept
from fxcore.transforms.fusion.activations import FuseActivations
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from fxcore.transforms.quantization.layers import (
    REFERENCE,
    QuantizingPass,
    Skip,
    core_of,
    layers_to_quantize,
    reference_of,
    weight_is_not_float32,
)
from fxcore.transforms.quantization.observers import MakeObserver, activation_observer, weight_observer

__all__ = ["QuantizeStatic"]


@dataclass(frozen=True)
class QuantizeStatic(QuantizingPass):
    """Quantizes convolutions and linear layers, with their inputs and results, to eight bits.

    Batch norm and activations are fused first, so the module must be in eval mode. `examples` are arguments to run the
    graph with, a tuple (or one tensor) each; observers look at the values. The result is the reference form: values go
    through `quantize_per_tensor` and `dequantize`, layers compute in floating point with weights that went through
    them too. `LowerQuantized` makes integers of it.

    - `activation`, `weight`: makers of observers; `observers.py` has ready ones. `skip`: layers to leave alone.
    - `progress`: a wrapper for `examples`, such as `tqdm.tqdm`.
    """

    examples: Iterable[Any]
    activation: MakeObserver = field(default_factory=activation_observer)
    weight: MakeObserver = field(default_factory=weight_observer)
    skip: Skip = field(default_factory=Skip)
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter

    def prepared(self, graph_module: GraphModule) -> GraphModule:
        """Return the module with batch norm and activations fused."""
        return fused(graph_module)

    def rewrite(self, made: GraphModule) -> Changes:
        """Quantize the layers. Raises PassError without examples."""
        layers, left = quantizable(made, self.skip)
        if layers:
            nodes = [node for calls in layers.values() for node in calls]
            values = dict.fromkeys([value for node in nodes for value in (*node.all_input_nodes, node)])
            observers = {value: self.activation() for value in values}
            _calibrate(made, observers, self.progress(self.examples))
            for path in layers:
                set_attribute(made, path, reference_of(get_attribute(made, path), self.weight))
            for value, observer in observers.items():
                _quantize_value(value, observer, made)
        return list(layers), left


def fused(gm: GraphModule) -> GraphModule:
    """Return `gm` with batch norm and activations fused. Raises EvalModeError in training mode."""
    folded: Any = FuseBatchNorm().call(gm).graph_module
    joined: Any = FuseActivations().call(folded).graph_module
    return joined  # type: ignore[no-any-return]


def quantizable(gm: GraphModule, skip: Skip) -> tuple[dict[str, list[Node]], dict[str, str]]:
    """Return the calls of the layers that can be quantized statically, and the reasons for all other layers."""
    storage = SharedStorage(gm.graph.nodes, gm)

    def reason_against(layer: Any, calls: list[Node]) -> str | None:
        padding = getattr(core_of(layer), "padding_mode", "zeros")
        if padding != "zeros":
            return f"it pads by {padding!r}, and quantized layers pad by zeros alone"
        reasons = (_reason_against(node, storage) for node in calls)
        return weight_is_not_float32(layer) or next((reason for reason in reasons if reason is not None), None)

    return layers_to_quantize(gm, REFERENCE, skip, reason_against)


def _reason_against(node: Node, storage: SharedStorage) -> str | None:
    if len(node.args) != 1 or not isinstance(node.args[0], Node):
        return "it is not called with one value"
    value = node.args[0]
    written = storage.writers_after(value)
    if any(writer < node for writer in written):
        return f"what it takes is written to before, by {written[0].name}"
    if written and (not value.op.startswith("call_") or storage.made_before(value)):
        return f"what it takes is written to by {written[0].name}, which others may see"
    return None


class ObservedRun(Interpreter):
    """Runs a graph, and shows each node's value to a function."""

    def __init__(self, gm: GraphModule, observe: Callable[[Node, Any], object]) -> None:
        super().__init__(gm)
        self._observe = observe

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        self._observe(n, value)
        return value


def _calibrate(gm: GraphModule, observers: dict[Node, Any], examples: Iterable[Any]) -> None:
    def observe(node: Node, value: Any) -> None:
        if node in observers:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                raise PassError(
                    f"cannot quantize {node.name}: its value is a {type(value).__name__}, no floating tensor"
                )
            observers[node](value)

    count = 0
    with torch.no_grad(), state_kept(gm):
        for example in examples:
            arguments = (example,) if isinstance(example, torch.Tensor) else example
            if not isinstance(arguments, (tuple, list)):
                raise PassArgumentError(
                    f"an example is a {type(example).__name__}; give a tuple of the graph's arguments, or one tensor"
                )
            ObservedRun(gm, observe).run(*arguments)
            count += 1
    if not count:
        raise PassError("cannot find scales: there is no example; give some inputs, as those that the model will see")


def _quantize_value(value: Node, observer: Any, gm: GraphModule) -> None:
    """Let all readers of a value read it quantized and made floating again."""
    scale, zero_point = observer.calculate_qparams()
    readers = list(value.users)
    with gm.graph.inserting_after(value):
        arguments = (value, float(scale), int(zero_point), observer.dtype)
        quantized = gm.graph.call_function(torch.quantize_per_tensor, arguments)
    with gm.graph.inserting_after(quantized):
        restored = gm.graph.call_method("dequantize", (quantized,))
    if value.op == "placeholder":
        gm.graph.find_nodes(op="placeholder")[-1].append(quantized)
        quantized.append(restored)
    restored.meta = dict(value.meta)
    for reader in readers:
        reader.replace_input_with(value, restored)
