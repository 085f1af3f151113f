"""Fusion of a layer and the activation after it into one module, for quantized and other backends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch.ao.nn.intrinsic as nni
from torch import nn

from fxcore.errors import EvalModeError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.passes.infra.working_copy import Changes, RewritingPass
from fxcore.transforms.analysis.operator_names import formula_name
from fxcore.transforms.fusion.calls import Fused, FusionReport, StateUses, has_hooks, is_layer_function, place_of

__all__ = ["INTRINSIC", "FuseActivations", "activation_of", "in_sequence"]

_FUNCTION = "the graph calls a function with its weight, and patterns join modules; trace the model with its layers"
Pattern = tuple[type[nn.Module], type[nn.Module]]
Patterns = Mapping[Pattern, Callable[[Any, Any], nn.Module]]

# The joined modules of torch.ao. Its quantized modules replace them.
INTRINSIC: Patterns = {
    (nn.Conv1d, nn.ReLU): nni.ConvReLU1d,
    (nn.Conv2d, nn.ReLU): nni.ConvReLU2d,
    (nn.Conv3d, nn.ReLU): nni.ConvReLU3d,
    (nn.Linear, nn.ReLU): nni.LinearReLU,
    (nn.Linear, nn.LeakyReLU): nni.LinearLeakyReLU,
    (nn.Linear, nn.Tanh): nni.LinearTanh,
    (nn.BatchNorm2d, nn.ReLU): nni.BNReLU2d,
    (nn.BatchNorm3d, nn.ReLU): nni.BNReLU3d,
}

# The name that all functions, methods and operators of ATen for an activation share -> the maker of the module, from
# the arguments after the first.
_SPELLINGS: Mapping[str, Callable[..., nn.Module]] = {
    "relu": lambda inplace=False: nn.ReLU(),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "leakyrelu": lambda negative_slope=0.01, inplace=False: nn.LeakyReLU(negative_slope),
    "gelu": nn.GELU,
    "silu": lambda inplace=False: nn.SiLU(),
    "hardswish": lambda inplace=False: nn.Hardswish(),
}


def in_sequence(layers: Iterable[type[nn.Module]], activations: Iterable[type[nn.Module]]) -> Patterns:
    """Return patterns that make a `nn.Sequential` of each layer and each activation."""
    kinds = list(activations)
    return {(layer, kind): nn.Sequential for layer in layers for kind in kinds}


def activation_of(node: Node, gm: GraphModule) -> nn.Module | None:
    """Return a module that does the computation of `node` on its first argument, if that is a known activation.

    The module does not work in place, because the joined module makes the value that it would change.
    """
    if node.op == "call_module":
        module = get_attribute(gm, str(node.target))
        kind = type(module)
        is_known = kind.__module__ == "torch.nn.modules.activation" and next(module.parameters(), None) is None
        if not is_known or len(node.args) != 1 or node.kwargs or has_hooks(module):
            return None
        return nn.ReLU() if kind is nn.ReLU else module  # a new module, because the old one may work in place
    spelling = _SPELLINGS.get(formula_name(node)) if node.op in ("call_function", "call_method") else None
    if spelling is None or not node.args:
        return None
    if any(isinstance(value, Node) for value in (*node.args[1:], *node.kwargs.values())):
        return None
    try:
        return spelling(*node.args[1:], **node.kwargs)
    except TypeError:  # `out=`, or a name of the first argument
        return None


@dataclass(frozen=True)
class FuseActivations(RewritingPass):
    """Makes one module of a layer and the activation after it, at the layer's path.

    `patterns` maps pairs of classes, of the layer and of the activation, to the maker of the joined module. A layer
    with another reader of its result stays as it is, and so does a layer that is called several times unless the same
    activation follows each call. The result has a `report`.
    """

    patterns: Patterns = field(default_factory=lambda: INTRINSIC)
    report_kind: ClassVar[type[FusionReport]] = FusionReport

    def rewrite(self, made: GraphModule) -> Changes:
        """Join the layers and their activations.

        Raises EvalModeError (an AssertionError and RuntimeError) if a layer that could be fused is in training mode.
        """
        fused: list[Fused] = []
        left = {node.name: _FUNCTION for node in made.graph.nodes if is_layer_function(node)}
        uses = StateUses(made)
        for layer, nodes in uses.calls.items():
            if all(kind is not type(layer) for kind, _ in self.patterns):
                continue
            joined = self._joined(layer, nodes, made, uses)
            if isinstance(joined, str):
                left[place_of(nodes[0])] = joined
                continue
            for node in nodes:
                reader = next(iter(node.users))
                fused.append(Fused(place_of(node), (place_of(reader),)))
                reader.replace_all_uses_with(node)
                made.graph.erase_node(reader)
                set_attribute(made, str(node.target), joined)
        return fused, left

    def _joined(self, layer: nn.Module, nodes: list[Node], gm: GraphModule, uses: StateUses) -> nn.Module | str:
        """Return the module that replaces the layer, or the reason why no module does."""
        activations = []
        for node in nodes:
            readers = list(node.users)
            if len(readers) != 1:
                names = ", ".join(reader.name for reader in readers)
                return f"its result is read by {names}" if readers else "nothing reads its result"
            activation = activation_of(readers[0], gm) if readers[0].args[:1] == (node,) else None
            maker = None if activation is None else self.patterns.get((type(layer), type(activation)))
            if activation is None or maker is None:
                return f"what follows is {place_of(readers[0])}, with which no pattern joins it"
            if uses.is_read_inside(str(node.target)):
                return "the graph reads its weights itself"
            if has_hooks(layer):
                return "it has hooks, which passes after this one would not see"
            activations.append((activation, maker))
        if len({repr(activation) for activation, _ in activations}) > 1:
            return "it is called several times, and different activations follow"
        if layer.training:
            raise EvalModeError(
                f"Fusion only for eval: cannot join {place_of(nodes[0])!r} and its activation, because it is in "
                "training mode; call eval() on the model, trace it, and run this pass then"
            )
        activation, maker = activations[0]
        return maker(layer, activation).train(layer.training)
