"""The layers that can be quantized, the user's choice of layers that stay in floating point, and the report."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
import torch.ao.nn.intrinsic as nni
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.reference as nnr
from torch import nn
from torch.nn.parameter import is_lazy

from fxcore.errors import PassError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.infra.working_copy import Report, ReportedResult, RewritingPass
from fxcore.transforms.analysis.operator_names import formula_name
from fxcore.transforms.fusion.calls import TRANSPOSED, StateUses, has_hooks, place_of, tensor_of
from fxcore.transforms.quantization.observers import MakeObserver

__all__ = ["QUANTIZED", "REFERENCE", "QuantizationReport", "QuantizationResult", "Skip", "core_of", "reference_of"]

_NAMES = ("Linear", *(f"Conv{turned}{size}d" for turned in ("", "Transpose") for size in (1, 2, 3)))
# A layer of torch -> the one that keeps its weight in floating point with a scale, and quantizes it as it runs.
REFERENCE: Mapping[type[nn.Module], Any] = {getattr(nn, name): getattr(nnr, name) for name in _NAMES}
_JOINED_NAMES = ("LinearReLU", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d")
# Joined with an activation: the layer is the first part.
_JOINED = tuple([getattr(nni, name) for name in _JOINED_NAMES])
# A reference layer, or the module that it is part of -> the one that computes with integers.
QUANTIZED: Mapping[type[nn.Module], Any] = {
    **{getattr(nnr, name): getattr(nnq, name) for name in _NAMES},
    **{getattr(nni, name): getattr(nniq, name) for name in _JOINED_NAMES},
}
# The functions of layers with a weight of two dimensions or more, under all their spellings.
_FUNCTIONS = frozenset(
    {*(name.lower() for name in _NAMES), "convolution", "addmm", "mm", "matmul", "embedding", "embeddingbag"}
)
_PRODUCTS = ("mm", "matmul")  # a layer only if the graph holds one of the factors
_AFFINE = {torch.per_tensor_symmetric: torch.per_tensor_affine, torch.per_channel_symmetric: torch.per_channel_affine}
_FUNCTION = "the graph calls a function with its weight, and only modules are replaced; trace the model with its layers"
_COMPUTED = "the graph computes its weight, and only weights that a module holds are quantized"


class QuantizationReport(Report):
    """The quantized layers, and the layers left in floating point with the reasons."""

    titles: ClassVar[tuple[str, str]] = ("quantized", "left in floating point")

    @property
    def quantized(self) -> tuple[str, ...]:
        """The quantized layers in the order of the graph."""
        return self.changed


class QuantizationResult(ReportedResult):
    """A PassResult with a report, and the module in floating point that errors are to be measured against."""

    float_module: GraphModule


class QuantizingPass(RewritingPass):
    """A pass that replaces layers by quantized layers."""

    report_kind: ClassVar[type[Report]] = QuantizationReport

    def call(self, graph_module: GraphModule) -> QuantizationResult:
        """Return a new module; `graph_module` and its layers stay as they are."""
        float_module = self.prepared(graph_module)
        result = super().call(float_module)
        module = result.graph_module if result.modified else graph_module
        made = QuantizationResult(module, result.modified, result.report)
        made.float_module = float_module
        return made

    def prepared(self, graph_module: GraphModule) -> GraphModule:
        """Return the module in floating point to quantize."""
        return graph_module


def refuse_without_engine(action: str, remedy: str) -> None:
    """Raise PassError if this build of torch computes with no quantized layers."""
    if torch.backends.quantized.engine in ("none", ""):
        raise PassError(
            f"cannot {action}: this build of torch has no engine for quantized layers "
            f"(torch.backends.quantized.supported_engines: {torch.backends.quantized.supported_engines}); {remedy}"
        )


@dataclass(frozen=True)
class Skip:
    """Layers that stay in floating point, named by path, glob or class."""

    paths: tuple[str, ...] = ()
    types: tuple[type[nn.Module], ...] = ()

    def reason(self, path: str, module: nn.Module) -> str | None:
        """Return the reason to skip a layer, or None."""
        for pattern in self.paths:
            if fnmatchcase(path, pattern):
                return f"its path is skipped by {pattern!r}"
        core = core_of(module)
        found = [kind for kind in self.types if isinstance(module, kind) or isinstance(core, kind)]
        return f"layers of class {found[0].__name__} are skipped" if found else None


def core_of(module: nn.Module) -> nn.Module:
    """Return the layer with the weight. A layer may be joined with an activation in a sequence."""
    return module[0] if type(module) in _JOINED else module  # type: ignore[index]  # a joined layer is a sequence


def layers_to_quantize(
    gm: GraphModule,
    kinds: Collection[type[nn.Module]],
    skip: Skip,
    reason_against: Callable[[Any, list[Node]], str | None],
) -> tuple[dict[str, list[Node]], dict[str, str]]:
    """Return the calls of the layers of these classes, by path, and the reason for each other layer with a weight.

    `reason_against` gets a layer and its calls, and returns the reason if the layer cannot be quantized.
    """
    found: dict[str, list[Node]] = {}
    for node in gm.graph.nodes:
        if _has_weight(node, gm):
            found.setdefault(place_of(node), []).append(node)
    left: dict[str, str] = {}
    uses = StateUses(gm)
    for path, calls in list(found.items()):
        layer = get_attribute(gm, path) if calls[0].op == "call_module" else None
        if layer is None:
            reason: str | None = _FUNCTION if _holds_weight(calls[0], gm) else _COMPUTED
        elif type(core_of(layer)) not in kinds:
            reason = f"layers of class {type(layer).__name__} are not quantized"
        else:
            reason = skip.reason(path, layer) or _reason_to_stay(path, layer, uses) or reason_against(layer, calls)
        if reason is not None:
            left[path] = reason
            del found[path]
    return found, left


def _has_weight(node: Node, gm: GraphModule) -> bool:
    """Return whether a node calls a layer with a weight that could be quantized, or the function of one."""
    if node.op == "call_module":
        module: Any = get_attribute(gm, str(node.target))
        state = (value for value in module.parameters() if not is_lazy(value))
        return any(value.dim() > 1 for value in state if value.is_floating_point())
    name = formula_name(node) if node.op in ("call_function", "call_method") else ""
    return name in _FUNCTIONS and (name not in _PRODUCTS or _holds_weight(node, gm))


def _holds_weight(node: Node, gm: GraphModule) -> bool:
    """Return whether a function takes a weight of the state, as it is."""
    values = (tensor_of(value, gm) for value in node.all_input_nodes)
    return any(value is not None and value.dim() > 1 for value in values)


def _reason_to_stay(path: str, layer: nn.Module, uses: StateUses) -> str | None:
    """Return the reason for every kind of quantization to leave a layer in floating point, or None."""
    if has_hooks(layer) or has_hooks(core_of(layer)):
        return "it has hooks, which would see other values, or none"
    return "the graph reads its weights itself" if uses.is_read_inside(path) else None


def weight_is_not_float32(layer: nn.Module) -> str | None:
    """Return the reason to leave a layer whose weight has another type."""
    dtype = next(core_of(layer).parameters()).dtype
    return None if dtype is torch.float32 else f"its weight is of {dtype}; only that of torch.float32 is quantized"


def reference_of(module: nn.Module, make_observer: MakeObserver) -> nn.Module:
    """Return a layer that computes with the quantized weight. `module` stays unchanged and shares its weight."""
    core: Any = core_of(module)
    observer = make_observer()
    if isinstance(core, TRANSPOSED) and hasattr(observer, "ch_axis"):
        observer.ch_axis = 1  # the axis of output channels
    observer(core.weight)
    scale, zero_point = observer.calculate_qparams()
    parameters = {"qscheme": _AFFINE.get(observer.qscheme, observer.qscheme), "dtype": observer.dtype, "scale": scale}
    parameters["zero_point"] = zero_point
    if observer.qscheme in (torch.per_channel_affine, torch.per_channel_symmetric):
        parameters["axis"] = observer.ch_axis
    else:
        parameters["scale"], parameters["zero_point"] = float(scale), int(zero_point)
    made: nn.Module = REFERENCE[type(core)].from_float(core, parameters)
    if core is not module:
        joined: Any = copy.copy(module)
        joined._modules = {**module._modules, "0": made}
        made = joined
    return made.train(module.training)
