"""Calls of convolution, linear and batch norm layers in all spellings of graphs, and the report of their fusion."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it
from torch import nn

from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.operators.kinds import overload_behind
from fxcore.passes.infra.working_copy import Report

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LAYERS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, *TRANSPOSED)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)

aten = torch.ops.aten
_CONV = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_CONV_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_LINEAR = ("input", "weight", "bias")
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups")
_NORM = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")


@functools.cache
def _layer_functions() -> Mapping[Any, tuple[str, ...]]:
    """Map each function that applies a layer to the names of its parameters."""
    found: dict[Any, tuple[str, ...]] = {F.linear: _LINEAR, aten.linear.default: _LINEAR}
    found[aten.addmm.default] = ("bias", "input", "weight")
    found[aten.convolution.default] = _CONVOLUTION
    for size in "123":
        found[getattr(F, f"conv{size}d")] = _CONV
        found[getattr(F, f"conv_transpose{size}d")] = _CONV_TRANSPOSED
        packet = getattr(aten, f"conv{size}d")
        found.update({packet.default: _CONV, packet.padding: _CONV})
        packet = getattr(aten, f"conv_transpose{size}d")
        found[packet.default if size == "1" else packet.input] = _CONV_TRANSPOSED
    return found


_NORM_IN_EVAL = tuple([name for name in _NORM if name != "training"])
# Calls of these functions return the statistics, too.
_NORMS_WITH_STATISTICS: Mapping[Any, tuple[str, ...]] = {
    aten.native_batch_norm.default: _NORM,
    aten._native_batch_norm_legit.default: _NORM,
    aten._native_batch_norm_legit_no_training.default: _NORM_IN_EVAL,
    aten._batch_norm_no_update.default: _NORM_IN_EVAL,
    aten.cudnn_batch_norm.default: _NORM,
    aten.miopen_batch_norm.default: _NORM,
}
_NORM_FUNCTIONS: Mapping[Any, tuple[str, ...]] = {
    F.batch_norm: ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    torch.batch_norm: _NORM,
    aten.batch_norm.default: _NORM,
    **_NORMS_WITH_STATISTICS,
}
_SCALE = ("weight", "bias")


def argument(node: Node, names: tuple[str, ...], name: str, default: Any = None) -> Any:
    """Return the argument of `node` for a parameter. `names` are all parameters in order."""
    position = names.index(name) if name in names else len(node.args)
    return node.args[position] if position < len(node.args) else node.kwargs.get(name, default)


@dataclass(frozen=True)
class LayerCall:
    """A call of a convolution or linear layer."""

    node: Node
    module: nn.Module | None  # None for a function
    names: tuple[str, ...]  # the parameters of the function
    weight: torch.Tensor
    bias: torch.Tensor | None
    is_linear: bool
    is_transposed: bool
    groups: int

    @property
    def is_addmm(self) -> bool:
        """Return whether the weight is transposed, as `addmm` takes it."""
        return overload_behind(self.node.target) is aten.addmm.default

    @property
    def channels(self) -> int:
        """The number of channels of the result."""
        if self.is_addmm:
            return int(self.weight.shape[1])
        return int(self.weight.shape[1] * self.groups if self.is_transposed else self.weight.shape[0])

    def scaled(self, scale: torch.Tensor) -> torch.Tensor:
        """Return the weight with each channel of the result multiplied, in the precision of `scale`."""
        weight = self.weight.to(scale.dtype)
        if self.is_addmm:
            return weight * scale
        if not self.is_transposed:
            return weight * scale.view(-1, *[1] * (weight.dim() - 1))
        inputs, outputs, *sizes = weight.shape
        grouped = weight.reshape(self.groups, inputs // self.groups, outputs, *sizes)
        return (grouped * scale.view(self.groups, 1, outputs, *[1] * len(sizes))).reshape(weight.shape)


@dataclass(frozen=True)
class NormCall:
    """A call of batch norm."""

    node: Node
    source: Any  # the input
    result: Node | None  # the node with the normalised value; None if there is no single node for it
    is_training: bool
    mean: torch.Tensor | None
    variance: torch.Tensor | None
    weight: torch.Tensor | None
    bias: torch.Tensor | None
    eps: float


def layer_call(node: Any, gm: GraphModule, layers: tuple[type[nn.Module], ...] = LAYERS) -> LayerCall | None:
    """Return the layer of these classes that `node` calls; None without one, or if the graph computes its weight."""
    if not isinstance(node, Node):
        return None
    if node.op == "call_module":
        module: Any = get_attribute(gm, str(node.target))
        if type(module) not in layers:
            return None
        is_linear = isinstance(module, nn.Linear)
        groups = 1 if is_linear else module.groups
        is_transposed = isinstance(module, TRANSPOSED)
        return LayerCall(node, module, (), module.weight, module.bias, is_linear, is_transposed, groups)
    function = overload_behind(node.target)
    names = _layer_functions().get(function) if node.op == "call_function" else None
    if names is None:
        return None
    weight = tensor_of(argument(node, names, "weight"), gm)
    if weight is None:
        return None
    bias_node = argument(node, names, "bias")
    bias = tensor_of(bias_node, gm)
    if bias_node is not None and bias is None:
        return None
    if function is aten.addmm.default and (weight.dim() != 2 or bias is None or bias.dim() != 1 or node.kwargs):
        return None
    is_transposed = names is _CONV_TRANSPOSED or bool(argument(node, names, "transposed", False))
    is_linear = len(names) == len(_LINEAR)
    return LayerCall(node, None, names, weight, bias, is_linear, is_transposed, argument(node, names, "groups") or 1)


def norm_call(node: Node, gm: GraphModule) -> NormCall | None:
    """Return the batch norm that `node` calls, or None."""
    if node.op == "call_module":
        norm: Any = get_attribute(gm, str(node.target))
        if type(norm) not in NORMS:
            return None
        statistics = (norm.running_mean, norm.running_var)
        source = node.args[0] if node.args else node.kwargs.get("input")
        return NormCall(node, source, node, norm.training, *statistics, norm.weight, norm.bias, norm.eps)
    function = overload_behind(node.target)
    names = _NORM_FUNCTIONS.get(function) if node.op == "call_function" else None
    if names is None:
        return None
    result: Node | None = node
    if function in _NORMS_WITH_STATISTICS:
        readers = list(node.users)
        result = readers[0] if len(readers) == 1 and readers[0].args[1:] == (0,) else None
    read = {name: tensor_of(argument(node, names, name), gm) for name in ("running_mean", "running_var", *_SCALE)}
    is_training = bool(argument(node, names, "training", False))
    eps = argument(node, names, "eps", 1e-5)
    if any(read[name] is None and argument(node, names, name) is not None for name in _SCALE):
        read["running_mean"] = None  # a scale from the graph cannot be folded: proceed as without statistics
    source = argument(node, names, "input")
    mean, variance = read["running_mean"], read["running_var"]
    return NormCall(node, source, result, is_training, mean, variance, read["weight"], read["bias"], eps)


def tensor_of(value: Any, gm: GraphModule) -> torch.Tensor | None:
    """Return the tensor that a node reads from the module, also transposed, as programs of ATen do before `addmm`."""
    if not isinstance(value, Node):
        return None
    if value.op == "get_attr":
        found = get_attribute(gm, str(value.target))
        return found if isinstance(found, torch.Tensor) else None
    function = overload_behind(value.target)
    is_turned = function in (aten.t.default, aten.t_copy.default) or (
        function in (aten.permute.default, aten.permute_copy.default) and value.args[1] in ([1, 0], (1, 0))
    )
    turned = tensor_of(value.args[0], gm) if is_turned else None
    return None if turned is None else turned.t()


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling a module does more than its class says: hooks, or a `forward` of its own."""
    own = vars(module)
    is_own = "forward" in own and not isinstance(module, GraphModule)  # a graph module keeps its compiled code there
    return is_own or any(own.get(f"_{name}_hooks") for name in ("forward", "forward_pre", "backward", "backward_pre"))


def place_of(node: Node) -> str:
    """Return how people know a call: by the path of its module, or by the name of its node."""
    return str(node.target) if node.op == "call_module" else node.name


def is_layer_function(node: Node) -> bool:
    """Return whether a node calls a function that applies a convolution or linear layer."""
    return node.op == "call_function" and overload_behind(node.target) in _layer_functions()


class StateUses:
    """The calls of each module that a graph calls, and the readers of each parameter and buffer."""

    def __init__(self, gm: GraphModule) -> None:
        """Look at the nodes of the graph; it must not change afterwards."""
        self.calls: dict[nn.Module, list[Node]] = {}
        self._readers: dict[int, set[Node | nn.Module]] = {}
        self._paths: set[str] = set()
        for node in gm.graph.nodes:
            if node.op == "call_module":
                module = get_attribute(gm, str(node.target))
                self.calls.setdefault(module, []).append(node)
                for tensor in (*module.parameters(), *module.buffers()):
                    self._readers.setdefault(id(tensor), set()).add(module)
            elif node.op == "get_attr" and node.users:
                path = str(node.target)
                self._readers.setdefault(id(get_attribute(gm, path)), set()).update(node.users)
                while path := path.rpartition(".")[0]:
                    self._paths.add(path)

    def readers(self, tensor: torch.Tensor | None) -> set[Node | nn.Module]:
        """Return the modules, and the nodes of the graph, that read a parameter or buffer."""
        return self._readers.get(id(tensor), set())

    def is_read_inside(self, path: str) -> bool:
        """Return whether the graph reads a part of the module at `path` itself, such as its weight."""
        return path in self._paths


class Fused(NamedTuple):
    """A layer that does the work of another now."""

    layer: str  # the path of its module, or the name of its node
    joined: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.layer} + {' + '.join(self.joined)}"


class FusionReport(Report):
    """The joined layers, and the layers of a kind that can be fused but were not, with the reasons."""

    titles: ClassVar[tuple[str, str]] = ("fused", "left alone")

    @property
    def fused(self) -> tuple[Fused, ...]:
        """The joined layers in the order of the graph."""
        return self.changed
