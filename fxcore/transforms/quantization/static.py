"""Post-training static quantization: scales of activations are found by running examples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fxcore.errors import PassArgumentError, PassError
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.infra.pass_base import PassBase, PassResult
from fxcore.passes.infra.working_copy import rebuilt, working_copy
from fxcore.state.snapshot import state_kept
from fxcore.transforms.fusion.activations import FuseActivations
from fxcore.transforms.fusion.batch_norm import FuseBatchNorm
from fxcore.transforms.fusion.report import Left, counted
from fxcore.transforms.quantization.layers import Skip, layers_to_quantize, reason_to_stay, reference_of
from fxcore.transforms.quantization.observers import MakeObserver, activation_observer, weight_observer

__all__ = ["QuantizationReport", "QuantizationResult", "QuantizeStatic"]


@dataclass(frozen=True)
class QuantizationReport:
    """The quantized layers, and the layers left in floating point with the reasons."""

    quantized: tuple[str, ...]
    left: tuple[Left, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*counted("quantized", self.quantized), *counted("left in floating point", self.left)])


class QuantizationResult(PassResult):
    """A PassResult with a report, and the module in floating point that errors are to be measured against."""

    report: QuantizationReport
    float_module: GraphModule

    def __new__(
        cls, graph_module: nn.Module, modified: bool, report: QuantizationReport, float_module: GraphModule
    ) -> QuantizationResult:
        """Make a result that unpacks into two as any other."""
        made = super().__new__(cls, graph_module, modified)
        made.report, made.float_module = report, float_module
        return made


def result_of(made: GraphModule, original: GraphModule, report: QuantizationReport) -> QuantizationResult:
    """Return the result of a pass that changed the working copy `made`; the original if nothing was quantized."""
    is_modified = bool(report.quantized)
    return QuantizationResult(rebuilt(made) if is_modified else original, is_modified, report, original)


def replaced_layers(
    gm: GraphModule, kinds: Collection[type[nn.Module]], skip: Skip, replacement: Callable[[Any], nn.Module | str]
) -> QuantizationReport:
    """Put `replacement(layer)` in the place of each layer of these classes that the graph calls, and report it.

    `replacement` returns the reason, as a text, if a layer stays.
    """
    quantized: list[str] = []
    left: list[Left] = []
    for path in dict.fromkeys([str(node.target) for node in gm.graph.find_nodes(op="call_module")]):
        layer = get_attribute(gm, path)
        if type(layer) not in kinds:
            continue
        made = reason_to_stay(path, gm, skip) or replacement(layer)
        if isinstance(made, str):
            left.append(Left(path, made))
        else:
            set_attribute(gm, path, made)
            quantized.append(path)
    return QuantizationReport(tuple(quantized), tuple(left))


def refuse_without_engine(action: str, remedy: str) -> None:
    """Raise PassError if this build of torch computes with no quantized layers."""
    if torch.backends.quantized.engine in ("none", ""):
        raise PassError(
            f"cannot {action}: this build of torch has no engine for quantized layers "
            f"(torch.backends.quantized.supported_engines: {torch.backends.quantized.supported_engines}); {remedy}"
        )


@dataclass(frozen=True)
class QuantizeStatic(PassBase):
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

    def call(self, graph_module: GraphModule) -> QuantizationResult:
        """Return a new module; `graph_module` and its layers stay as they are. Raises PassError without examples."""
        float_module = fused(graph_module)
        made = working_copy(float_module)
        layers, left = layers_to_quantize(made, self.skip)
        report = QuantizationReport(tuple([str(node.target) for node in layers]), tuple(left))
        if not layers:
            return QuantizationResult(graph_module, False, report, float_module)
        values = dict.fromkeys([value for node in layers for value in (*node.all_input_nodes, node)])
        observers = {value: self.activation() for value in values}
        _calibrate(made, observers, self.progress(self.examples))
        for path in dict.fromkeys(report.quantized):
            set_attribute(made, path, reference_of(get_attribute(made, path), self.weight))
        for value, observer in observers.items():
            _quantize_value(value, observer, made)
        return QuantizationResult(rebuilt(made), True, report, float_module)


def fused(gm: GraphModule) -> GraphModule:
    """Return `gm` with batch norm and activations fused. Raises EvalModeError in training mode."""
    folded: Any = FuseBatchNorm().call(gm).graph_module
    joined: Any = FuseActivations().call(folded).graph_module
    return joined  # type: ignore[no-any-return]


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
        _after_placeholders(quantized, restored, gm)
    restored.meta = dict(value.meta)
    for reader in readers:
        reader.replace_input_with(value, restored)


def _after_placeholders(quantized: Node, restored: Node, gm: GraphModule) -> None:
    last = gm.graph.find_nodes(op="placeholder")[-1]
    last.append(quantized)
    quantized.append(restored)
