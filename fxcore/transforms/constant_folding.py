"""Constant folding: values that depend on parameters, buffers and plain numbers alone are computed now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from fxcore.graph_module import GraphModule
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.node_data.purity import effects_of_node
from fxcore.nodes.shared_storage import SharedStorage, is_repeatable
from fxcore.passes.infra.working_copy import Changes, RewritingPass, free_name

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

    def rewrite(self, made: GraphModule) -> Changes:
        """Fold the constants."""
        constant, left = self._constants(made)
        computed = {node for node in constant if _computes(node, made)}
        wanted = [node for node in constant if node in computed and any(user not in constant for user in node.users)]
        values = _values(made, constant) if wanted else {}
        for node in wanted:
            reason = self._replace(node, values[node], made)
            if reason is not None:
                left[node.name] = reason
        folded = [node.name for node in wanted if node.name not in left]
        if folded:
            made.graph.eliminate_dead_code()
        return folded, left

    def _constants(self, gm: GraphModule) -> tuple[dict[Node, None], dict[str, str]]:
        """Return the nodes with the same value in every run, in order, and the reasons for their readers."""
        storage = SharedStorage(gm.graph.nodes, gm)
        constant: dict[Node, None] = {}
        left: dict[str, str] = {}
        for node in gm.graph.nodes:
            if node.op in ("placeholder", "output") or not all(value in constant for value in node.all_input_nodes):
                continue
            reason = self._reason_against(node, gm, storage)
            if reason is None:
                constant[node] = None
            elif node.op == "get_attr" or node.all_input_nodes:
                left[node.name] = reason
        return constant, left

    def _reason_against(self, node: Node, gm: GraphModule, storage: SharedStorage) -> str | None:
        """Return why a node that depends on no input is not folded, or None."""
        if storage.writers(node):
            return f"{storage.writers(node)[0].name} writes to its memory"
        if self.skip is not None and self.skip(node):
            return "it is skipped"
        parameters: list[Any] = []
        if node.op == "get_attr":
            parameters = [get_attribute(gm, str(node.target))]
            if not isinstance(parameters[0], torch.Tensor):
                return "it is no tensor"
        elif storage.is_returned(node):
            return "it is returned, and callers may write to it"
        elif not is_repeatable(node, gm):
            return "it may give another value in the next run, or have effects"
        elif node.op == "call_module":
            parameters = list(get_attribute(gm, str(node.target)).parameters())
        if not self.parameters and any(each.requires_grad for each in parameters):
            return "it is a parameter that wants a gradient; parameters=True folds it"
        return None

    def _replace(self, node: Node, value: Any, gm: GraphModule) -> str | None:
        """Put a value in the place of a node, or return why it stays."""
        if isinstance(value, _PLAIN) and not isinstance(value, torch.Tensor):
            node.replace_all_uses_with(value)  # type: ignore[arg-type]  # it takes constants, too
            return None
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            return f"its value is a {type(value).__name__}, which cannot be a plain buffer"
        size = value.numel() * value.element_size()
        if self.max_bytes is not None and size > self.max_bytes:
            return f"its value takes {size} bytes, and max_bytes is {self.max_bytes}"
        name = free_name(gm, f"folded_{node.name}")
        # A copy: the value may be a view of a parameter, or another folded one.
        gm.register_buffer(name, value.detach().clone())
        with gm.graph.inserting_before(node):
            read = gm.graph.get_attr(name)
        read.meta = dict(node.meta)
        node.replace_all_uses_with(read)
        return None


def _computes(node: Node, gm: GraphModule) -> bool:
    """Return whether something is computed up to `node`, so that folding it saves work."""
    while node.op != "get_attr":
        if "view" not in effects_of_node(node, gm).facts or not node.all_input_nodes:
            return True
        node = node.all_input_nodes[0]
    return False


def _values(gm: GraphModule, constant: dict[Node, None]) -> dict[Node, Any]:
    """Run the constant nodes, which are in order, as the graph would run them, but without gradients."""
    runner = Interpreter(gm)
    runner.env = {}
    with torch.no_grad():
        for node in constant:
            runner.env[node] = runner.run_node(node)
    return runner.env
