"""From the reference form of a quantized graph to torch's layers that compute with integers."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - everybody's name for it

from fxcore.graph_module import GraphModule
from fxcore.guards import Guards
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, set_attribute
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.passes.infra.working_copy import Changes
from fxcore.transforms.fusion.calls import TRANSPOSED
from fxcore.transforms.quantization.layers import QUANTIZED, QuantizingPass, core_of, refuse_without_engine

__all__ = ["LowerQuantized"]

_ADDITIONS = (operator.add, operator.iadd, torch.add)
_GUARDING = "a guard of the graph calls it; a graph that is traced with enforce_guards=False checks none"
_RELUS = (torch.relu, F.relu)


class LowerQuantized(QuantizingPass):
    """Replaces `dequantize`, reference layer, `quantize_per_tensor` by one quantized layer of torch.

    Additions of two dequantized values, and a relu after them, are replaced too. A layer without a quantized value
    before or after it stays as it is, in floating point, and so does a layer that a guard calls; the report of the
    result says so. Needs the engine that `torch.backends.quantized.engine` names.
    """

    def rewrite(self, made: GraphModule) -> Changes:
        """Replace the layers. Raises PassError if this build of torch computes with no quantized layers."""
        refuse_without_engine("lower to quantized layers", "keep the reference form")
        storage = SharedStorage(made.graph.nodes, made)
        quantize = made.graph.find_nodes(op="call_function", target=torch.quantize_per_tensor)
        lowered = [name for node in quantize for name in _lower_addition(node, made, storage)]
        left: dict[str, str] = {}
        calls = [node for node in made.graph.find_nodes(op="call_module") if _is_reference(node, made)]
        counts = Counter(str(node.target) for node in calls)
        guarding = _layers_of_guards(made)
        for node in calls:
            path = str(node.target)
            if counts[path] > 1:
                reason: str | None = "it is called several times"
            else:
                reason = _GUARDING if path in guarding else _reason_against(node, storage, made)
            if reason is None:
                _lower_layer(node, made)
                lowered.append(path)
            else:
                left[path] = reason
        made.graph.eliminate_dead_code()
        return lowered, left


def _layers_of_guards(gm: GraphModule) -> set[str]:
    """Return the paths of the modules that the check of the guards calls, with values in floating point."""
    guards = gm.graph.guards
    checks = guards.graph if isinstance(guards, Guards) and guards.are_enforced else None
    return set() if checks is None else {str(node.target) for node in checks.find_nodes(op="call_module")}


def _is_reference(node: Node, gm: GraphModule) -> bool:
    module = get_attribute(gm, str(node.target))
    return type(module) in QUANTIZED and hasattr(core_of(module), "get_quantized_weight")


def _quantized_source(value: Any, reader: Node, storage: SharedStorage) -> Node | None:
    """Return the quantized input of the `dequantize` that made `value`, if no write comes before `reader`."""
    if not isinstance(value, Node) or value.op != "call_method" or value.target != "dequantize":
        return None
    if any(writer < reader for writer in storage.writers_after(value)):
        return None
    source = value.args[0]
    assert isinstance(source, Node)
    return source


def _reason_against(node: Node, storage: SharedStorage, gm: GraphModule) -> str | None:
    if _quantized_source(node.args[0], node, storage) is None:
        return "what it takes is not quantized"
    if [user.target for user in node.users] != [torch.quantize_per_tensor]:
        return "what it gives is not quantized, or read before it is"
    layer: Any = get_attribute(gm, str(node.target))
    engine = torch.backends.quantized.engine
    if isinstance(layer, TRANSPOSED) and engine not in ("fbgemm", "qnnpack"):
        # In torch 2.13, these engines give wrong results where the numbers of channels differ.
        return (
            f"the engine {engine!r} is wrong on transposed convolutions; set torch.backends.quantized.engine to another"
        )
    if isinstance(layer, TRANSPOSED) and core_of(layer).weight_qscheme != torch.per_tensor_affine:
        return "no engine has transposed convolutions with a scale for each channel; give weight_observer('per_tensor')"
    return None


def _lower_layer(node: Node, gm: GraphModule) -> None:
    (quantize,) = node.users
    module = get_attribute(gm, str(node.target))
    _, scale, zero_point, _ = quantize.args
    (restored,) = node.all_input_nodes
    source = restored.args[0]
    with torch.no_grad():
        made = QUANTIZED[type(module)].from_reference(module, scale, zero_point)
    set_attribute(gm, str(node.target), made.train(module.training))
    node.args = (source,)
    quantize.replace_all_uses_with(node)
    gm.graph.erase_node(quantize)


def _lower_addition(quantize: Node, gm: GraphModule, storage: SharedStorage) -> list[str]:
    """Replace the sum of two dequantized values, with its relu, by one quantized call; return the replaced names."""
    value, scale, zero_point, _ = quantize.args
    steps = []
    relu = False
    if isinstance(value, Node) and _is_relu(value, gm) and len(value.users) == 1:
        steps.append(value.name)
        value, relu = value.args[0], True
    if not isinstance(value, Node) or value.target not in _ADDITIONS or len(value.users) != 1 or value.kwargs:
        return []
    sources = [_quantized_source(argument, value, storage) for argument in value.args]
    if len(sources) != 2 or None in sources:
        return []
    if value.target is operator.iadd and len(value.all_input_nodes[0].users) > 1:  # other readers may see the write
        return []
    target = torch.ops.quantized.add_relu if relu else torch.ops.quantized.add
    with gm.graph.inserting_before(quantize):
        added = gm.graph.call_function(target, (*sources, scale, zero_point))
    quantize.replace_all_uses_with(added)
    gm.graph.erase_node(quantize)
    return [value.name, *steps]


def _is_relu(node: Node, gm: GraphModule) -> bool:
    if node.op == "call_module":
        return type(get_attribute(gm, str(node.target))) is torch.nn.ReLU
    return node.target in _RELUS or (node.op == "call_method" and node.target == "relu")
