"""Folding batch norm into the convolution or linear layer before it, for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from fxcore.errors import EvalModeError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.node_data.purity import called_module
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.passes.infra.working_copy import Changes, RewritingPass, free_name
from fxcore.transforms.fusion.calls import (
    LAYERS,
    Fused,
    FusionReport,
    LayerCall,
    NormCall,
    StateUses,
    argument,
    has_hooks,
    layer_call,
    norm_call,
    place_of,
    tensor_of,
)

__all__ = ["FuseBatchNorm"]

Pairs = list[tuple[NormCall, LayerCall]]


@dataclass(frozen=True)
class FuseBatchNorm(RewritingPass):
    """Folds batch norm into the convolution, transposed convolution or linear layer before it.

    Modules, functions and operators of ATen are known, of all precisions; the new weights are computed in double
    precision. `layers` are the classes of modules that may take a norm; with `functions` calls of functions may, too. A
    layer with other readers of its result or weights stays as it is; one that is called several times is fused if the
    same norm follows each call. The result has a `report`.
    """

    layers: tuple[type[nn.Module], ...] = LAYERS
    functions: bool = True
    report_kind: ClassVar[type[FusionReport]] = FusionReport

    def rewrite(self, made: GraphModule) -> Changes:
        """Fold the norms into layers.

        Raises EvalModeError (an AssertionError and RuntimeError) if a norm that could be fused is in training mode.
        """
        made.graph.eliminate_dead_code()  # make_fx reads statistics that nobody uses
        uses, written = StateUses(made), _written_state(made)
        groups: dict[object, Pairs] = {}
        reasons: dict[Node, str | None] = {}  # in the order of the graph
        nodes = dict.fromkeys([node for node in made.graph.nodes if self.functions or node.op == "call_module"])
        for norm in filter(None, [norm_call(node, made) for node in nodes]):
            layer = layer_call(norm.source, made, self.layers) if norm.source in nodes else None
            reason = _reason_against(norm, layer) if layer is not None else _why_no_layer(norm, made, self.layers)
            reasons[norm.node] = reason
            if layer is not None and reason is None:
                groups.setdefault(layer.module or layer.node, []).append((norm, layer))
        fused: list[Fused] = []
        for pairs in groups.values():
            reason = _reason_against_group(pairs, uses, written)
            reasons.update((norm.node, reason) for norm, _ in pairs)
            if reason is None:
                _refuse_training(pairs)
                fused.extend(Fused(place_of(layer.node), (place_of(norm.node),)) for norm, layer in pairs)
                _fuse(pairs, made)
        if fused:
            _erase_unread(made)
        return fused, {place_of(node): reason for node, reason in reasons.items() if reason is not None}


def _written_state(gm: GraphModule) -> set[int]:
    """Return the parameters and buffers, by identity, that the graph may write to."""
    storage = SharedStorage(gm.graph.nodes, gm)
    reads = gm.graph.find_nodes(op="get_attr")
    return {id(get_attribute(gm, str(node.target))) for node in reads if storage.writers(node)}


def _why_no_layer(norm: NormCall, gm: GraphModule, layers: tuple[type[nn.Module], ...]) -> str:
    source = norm.source
    if not isinstance(source, Node) or source.op in ("placeholder", "get_attr"):
        return "it normalises an input"
    if source.op == "call_module":
        module = get_attribute(gm, str(source.target))
        parent = next((kind for kind in layers if isinstance(module, kind)), None)
        if parent is not None:
            name = type(module).__name__
            return f"{source.target} is of class {name}, which may compute something else than {parent.__name__}"
        return f"it follows {source.target}, of class {type(module).__name__}"
    return f"it follows {source.name}, which is no layer with a weight that the module holds"


def _reason_against(norm: NormCall, layer: LayerCall) -> str | None:
    """Return why a norm cannot be folded into the layer before it, if it cannot."""
    place = place_of(layer.node)
    others = [user.name for user in layer.node.users if user is not norm.node]
    if others:
        return f"{', '.join(others)} reads the result of {place}, too"
    if norm.result is None:
        return "the statistics that it returns are read"
    if (norm.mean is None or norm.variance is None) and not norm.is_training:
        return "it keeps no statistics, or they or its weights are computed in the graph"
    if norm.mean is not None and norm.mean.numel() != layer.channels:
        return f"it normalises {norm.mean.numel()} channels, and {place} has {layer.channels}"
    dimensions = _dimensions(layer.node)
    if layer.is_linear and dimensions not in (None, 2):
        return f"the result of {place} has {dimensions} dimensions, of which it normalises the second, not the last"
    if not layer.is_linear and dimensions not in (None, layer.weight.dim()):
        return f"the result of {place} has no batch, so that it does not normalise channels"
    owner = norm.node.graph.owning_module
    modules = (layer.module, called_module(norm.node, owner) if norm.node.op == "call_module" else None)
    hooked = [each for each in modules if each is not None and has_hooks(each)]
    if hooked:
        return f"the {type(hooked[0]).__name__} has hooks, which would no longer run or see other values"
    return None


def _dimensions(node: Node) -> int | None:
    known = node.meta.get("val", node.meta.get("tensor_meta"))
    shape = getattr(known, "shape", None)
    return None if shape is None else len(shape)


def _reason_against_group(pairs: Pairs, uses: StateUses, written: set[int]) -> str | None:
    """Return why the norms after all calls of one layer cannot be folded into it, if they cannot."""
    norm, layer = pairs[0]
    place = place_of(layer.node)
    if len({(id(norm.mean), id(norm.weight), id(norm.bias)) for norm, _ in pairs}) > 1:
        return f"{place} is called several times, and different norms follow"
    state = (layer.weight, layer.bias, norm.mean, norm.variance, norm.weight, norm.bias)
    if any(id(tensor) in written for tensor in state) and not norm.is_training:
        return "the graph writes to its statistics or weights"
    if layer.module is not None:
        if len(uses.calls[layer.module]) > len(pairs):
            return f"{place} is called elsewhere without this norm"
        others = (uses.readers(layer.weight) | uses.readers(layer.bias)) - {layer.module}
    else:
        chains = list(_chains(layer))
        owner = layer.node.graph.owning_module
        readers = [uses.readers(get_attribute(owner, str(chain[-1].target))) for chain in chains]
        users = [set(node.users) for chain in chains for node in chain]
        others = set().union(*readers, *users) - {layer.node, *(node for chain in chains for node in chain)}
    return f"the weights of {place} are read elsewhere, too" if others else None


def _chains(layer: LayerCall) -> Iterator[list[Node]]:
    """Yield the nodes between a call of a function and its weight, and its bias: transposes, then the `get_attr`."""
    for name in ("weight", "bias"):
        node = argument(layer.node, layer.names, name)
        chain = []
        while isinstance(node, Node):
            chain.append(node)
            node = None if node.op == "get_attr" else node.args[0]
        if chain:
            yield chain


def _refuse_training(pairs: Pairs) -> None:
    for norm, layer in pairs:
        place, norm_place = place_of(layer.node), place_of(norm.node)
        is_trained = layer.module is not None and layer.module.training
        if norm.is_training or is_trained:
            mode = f"{norm_place!r} is" if norm.is_training else f"{place!r} is"
            raise EvalModeError(
                f"Fusion only for eval: cannot fold batch norm {norm_place!r} into {place!r}, because {mode} in "
                "training mode, where statistics and weights change; call eval() on the model, trace it, and run "
                "this pass then"
            )


def _fuse(pairs: Pairs, gm: GraphModule) -> None:
    norm, layer = pairs[0]
    weight, bias = _folded(norm, layer)
    if layer.module is not None:
        fused = _with_state(layer.module, weight, bias)
        for path in {str(each.node.target) for _, each in pairs}:
            set_attribute(gm, path, fused)
    else:
        _set_state(layer, weight, bias, gm)
    for each, _ in pairs:
        assert each.result is not None
        each.result.replace_all_uses_with(each.source)
        for node in dict.fromkeys((each.result, each.node)):
            gm.graph.erase_node(node)


def _folded(norm: NormCall, layer: LayerCall) -> tuple[nn.Parameter, nn.Parameter]:
    """Return weight and bias of a layer that also normalises. Computed in double precision, then rounded once."""
    assert norm.mean is not None
    assert norm.variance is not None
    with torch.no_grad():
        mean, scale = norm.mean.double(), torch.rsqrt(norm.variance.double() + norm.eps)
        if norm.weight is not None:
            scale = scale * norm.weight.double()
        bias = -mean if layer.bias is None else layer.bias.double() - mean
        bias = bias * scale
        if norm.bias is not None:
            bias = bias + norm.bias.double()
        weight = layer.scaled(scale)
    own = layer.weight
    needs_grad = own.requires_grad
    return nn.Parameter(weight.to(own.dtype), needs_grad), nn.Parameter(bias.to(own.dtype), needs_grad)


def _with_state(layer: nn.Module, weight: nn.Parameter, bias: nn.Parameter) -> nn.Module:
    """Return a layer with other weights; the one that is given stays."""
    # The old weights need not be copied.
    fused = copy.deepcopy(layer, {id(value): value for value in layer.parameters()})
    fused.register_parameter("weight", weight)
    fused.register_parameter("bias", bias)
    return fused


def _set_state(layer: LayerCall, weight: nn.Parameter, bias: nn.Parameter, gm: GraphModule) -> None:
    """Let the call of a function read new weights, in places of their own."""
    node, names = layer.node, layer.names
    # Named after the module that the old weights lie in.
    parent = str(next(_chains(layer))[-1].target).rpartition(".")[0]
    stem = f"{parent or node.name}_fused"
    for name, value in (("weight", weight), ("bias", bias)):
        path = free_name(gm, f"{stem}_{name}")
        set_attribute(gm, path, value)
        with gm.graph.inserting_before(node):
            read = gm.graph.get_attr(path)
        position = names.index(name)
        if position < len(node.args):
            node.update_arg(position, read)
        elif position == len(node.args) and name not in node.kwargs:
            node.args = (*node.args, read)
        else:
            node.update_kwarg(name, read)


def _erase_unread(gm: GraphModule) -> None:
    """Erase nodes that only the norms read: their weights and statistics, and transposes of the old weights."""
    for node in reversed(list(gm.graph.nodes)):
        if not node.users and (node.op == "get_attr" or tensor_of(node, gm) is not None):
            gm.graph.erase_node(node)
