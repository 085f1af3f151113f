"""Constant folding: values that depend on parameters, buffers and plain numbers alone are computed now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import effects_of_node
from fxcore.nodes.shared_storage import SharedStorage, is_repeatable
from fxcore.passes.infra.working_copy import RewritingPass, free_name

__all__ = ["FoldConstants"]

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))


@dataclass(frozen=True)
class FoldConstants(RewritingPass):
    """Replaces values that are the same in every run: tensors become buffers `folded_<name>`.

    Values that depend on buffers, numbers and known functions without randomness are folded; with `parameters` also
    values that depend on parameters that want a gradient, and these parameters then get no gradient. Memory that the
    graph writes to or returns, other views of memory, values of more than `max_bytes`, and nodes that `skip` accepts
    stay as they are. `fxcore.experimental.const_fold` splits constants off instead, to be computed at the first call.
    """

    parameters: bool = False
    max_bytes: int | None = None
    skip: Callable[[Node], bool] | None = None

    def rewrite(self, made: GraphModule) -> bool:
        """Fold the constants; return whether there was any."""
        constant = self._constants(made)
        computed = {node for node in constant if _computes(node, made)}
        wanted = [node for node in constant if node in computed and any(user not in constant for user in node.users)]
        modified = False
        if wanted:
            values = _values(made, constant)
            for node in wanted:
                modified |= self._replace(node, values[node], made)
        if modified:
            made.graph.eliminate_dead_code()
        return modified

    def _constants(self, gm: GraphModule) -> dict[Node, None]:
        """Return the nodes with the same value in every run, in order."""
        storage = SharedStorage(gm.graph.nodes, gm)
        constant: dict[Node, None] = {}
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "output") or storage.writers(node):
                continue
            if self.skip is not None and self.skip(node):
                continue
            if node.op == "get_attr":
                value = get_attribute(gm, str(node.target))
                is_constant = isinstance(value, torch.Tensor) and (self.parameters or not value.requires_grad)
            elif storage.is_returned(node):  # callers may write to a returned value
                is_constant = False
            else:
                is_constant = is_repeatable(node, gm) and all(value in constant for value in node.all_input_nodes)
                is_constant = is_constant and (node.op != "call_module" or self._may_fold_layer(node, gm))
            if is_constant:
                constant[node] = None
        return constant

    def _may_fold_layer(self, node: Node, gm: GraphModule) -> bool:
        layer = get_attribute(gm, str(node.target))
        return self.parameters or not any(parameter.requires_grad for parameter in layer.parameters())

    def _replace(self, node: Node, value: Any, gm: GraphModule) -> bool:
        if isinstance(value, _PLAIN) and not isinstance(value, torch.Tensor):
            _replace_by_plain(node, value)
            return True
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            return False
        if self.max_bytes is not None and value.numel() * value.element_size() > self.max_bytes:
            return False
        name = free_name(gm, f"folded_{node.name}")
        # A copy: the value may be a view of a parameter, or another folded one.
        gm.register_buffer(name, value.detach().clone())
        with gm.graph.inserting_before(node):
            read = gm.graph.get_attr(name)
        read.meta = dict(node.meta)
        node.replace_all_uses_with(read)
        return True


def _replace_by_plain(node: Node, value: Any) -> None:
    def swapped(argument: Any) -> Any:
        return value if argument is node else argument

    for user in list(node.users):
        user.args = map_values(user.args, swapped)
        user.kwargs = map_values(user.kwargs, swapped)


def _computes(node: Node, gm: GraphModule) -> bool:
    """Return whether something is computed up to `node`, so that folding it saves work."""
    while node.op != "get_attr":
        if "view" not in effects_of_node(node, gm).facts or not node.all_input_nodes:
            return True
        node = node.all_input_nodes[0]
    return False


def _values(gm: GraphModule, constant: dict[Node, None]) -> dict[Node, Any]:
    """Run the constant nodes, which are in order, as the graph would run them, but without gradients."""
    runner = Interpreter(gm, garbage_collect_values=False)
    runner.env = {}
    with torch.no_grad():
        for node in constant:
            runner.env[node] = runner.run_node(node)
    return runner.env
