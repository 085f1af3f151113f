"""Exchange of activations, and moves of a graph to another precision or device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.errors import PassArgumentError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.arguments import map_aggregate
from fxcore.node_data.attribute_paths import set_attribute
from fxcore.node_data.purity import is_impure
from fxcore.nodes.shared_storage import SharedStorage
from fxcore.passes.infra.pass_base import PassBase, PassResult
from fxcore.passes.infra.working_copy import Changes, RewritingPass, free_name
from fxcore.transforms.fusion.activations import activation_of
from fxcore.transforms.fusion.calls import place_of

__all__ = ["ExchangeActivations", "MoveTo"]

_PRECISIONS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
# Makers of tensors -> whether their dtype is torch's default. For the others, that is so if a number is a float.
_MAKERS = {
    **dict.fromkeys((torch.zeros, torch.ones, torch.empty, torch.eye, torch.rand, torch.randn), True),
    **dict.fromkeys((torch.linspace, torch.logspace, torch.hann_window, torch.hamming_window), True),
    **dict.fromkeys((torch.full, torch.arange, torch.tensor, torch.scalar_tensor, torch.as_tensor), False),
    **dict.fromkeys((torch.randint, torch.randperm, torch.tril_indices, torch.triu_indices), False),
}


@dataclass(frozen=True)
class ExchangeActivations(RewritingPass):
    """Puts other activations in the place of modules, functions and methods that are activations of some classes.

    `table` maps the class of a module to the maker of the new module, which takes no arguments: `{nn.ReLU: nn.GELU}`.
    An activation that works in place on a value with other readers stays.
    """

    table: Mapping[type[nn.Module], Callable[[], nn.Module]]

    def rewrite(self, made: GraphModule) -> Changes:
        """Exchange the activations."""
        exchanged: dict[str, nn.Module] = {}
        found, left = self._found(made)
        staying = {str(node.target) for node in made.graph.find_nodes(op="call_module") if node not in found}
        changed = [place_of(node) for node in found]
        for node, (make, source) in found.items():
            own = node.op == "call_module" and str(node.target) not in staying
            path = str(node.target) if own else free_name(made, f"{node.name}_exchanged")
            if path not in exchanged:
                exchanged[path] = make().train(made.training)
                set_attribute(made, path, exchanged[path])
            node.op, node.target, node.args, node.kwargs = "call_module", path, (source,), {}
        return changed, left

    def _found(self, gm: GraphModule) -> tuple[dict[Node, tuple[Callable[[], nn.Module], Node]], dict[str, str]]:
        """Return the calls to exchange, with the maker of the activation and the value to read, and the others."""
        storage = SharedStorage(gm.graph.nodes, gm)
        found: dict[Node, tuple[Callable[[], nn.Module], Node]] = {}
        left: dict[str, str] = {}
        for node in gm.graph.nodes:
            activation = activation_of(node, gm) if node.op.startswith("call_") else None
            make = self.table.get(type(activation)) if activation is not None else None
            if make is None:
                continue
            source = node.args[0]
            if not isinstance(source, Node):
                left[place_of(node)] = "its argument is no value of the graph"
            elif is_impure(node, gm) and not source.op.startswith("call_"):
                left[place_of(node)] = f"it works in place, on {source.name}, which belongs to the caller or the module"
            elif is_impure(node, gm) and (storage.made_before(node) != [source] or len(source.users) > 1):
                left[place_of(node)] = "it works in place, on a value that other nodes read"
            else:
                found[node] = (make, source)
        return found, left


@dataclass(frozen=True)
class MoveTo(PassBase):
    """Moves a graph to another floating precision or device: its state, and the constants in its nodes.

    A trace keeps dtypes and devices that the model asked for as plain arguments, and `GraphModule.to()` cannot see
    them. Here arguments that are devices become `device`. Arguments that are `from_dtype`, and methods such as
    `float()`, become `dtype`. Nodes that `keep` accepts stay, for example a softmax in single precision.
    """

    dtype: torch.dtype | None = None
    device: torch.device | str | None = None
    from_dtype: torch.dtype = torch.float32
    keep: Callable[[Node], bool] = lambda node: False

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a copy, state included. Raises PassArgumentError for a dtype that is not of floating point."""
        if self.dtype is not None and not self.dtype.is_floating_point:
            raise PassArgumentError(f"a graph cannot be moved to {self.dtype}; give a floating dtype, or quantize it")
        made = copy.deepcopy(graph_module)
        for node in made.graph.nodes:
            if node.op.startswith("call_") and not self.keep(node):
                self._change(node)
                self._place_new(node)
        made.to(device=self.device, dtype=self.dtype)
        for node in made.graph.nodes:
            node.meta = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}
        made.recompile()
        return PassResult(made, self.dtype is not None or self.device is not None)

    def _change(self, node: Node) -> None:
        if node.op == "call_method":
            if self.dtype is not None and _PRECISIONS.get(str(node.target)) is self.from_dtype:
                node.target, node.args = "to", (*node.args, self.dtype)
            elif self.device is not None and node.target in ("cpu", "cuda"):
                node.target, node.args, node.kwargs = "to", (node.args[0], torch.device(self.device)), {}
        if self.device is not None and (node.target, node.op) == ("to", "call_method"):
            node.args = tuple([self._named(value) for value in node.args])
        node.args = map_aggregate(node.args, self._moved)
        kwargs = {key: self._named(value) if key == "device" else value for key, value in node.kwargs.items()}
        node.kwargs = map_aggregate(kwargs, self._moved)

    def _named(self, value: Any) -> Any:
        """Return the device in the place of its name."""
        return torch.device(self.device) if isinstance(value, str) and self.device is not None else value

    def _place_new(self, node: Node) -> None:
        """Give a new tensor its device and dtype, if the trace left them to torch's defaults."""
        if node.op != "call_function" or node.target not in _MAKERS or node.kwargs.get("out") is not None:
            return
        if self.device is not None and node.kwargs.get("device") is None:
            node.update_kwarg("device", torch.device(self.device))
        numbers = pytree.tree_leaves((node.args, node.kwargs))
        is_floating = _MAKERS[node.target] or any(isinstance(value, float) for value in numbers)
        is_default = node.kwargs.get("dtype") is None and self.from_dtype is torch.get_default_dtype()
        if self.dtype is not None and is_floating and is_default:
            node.update_kwarg("dtype", self.dtype)

    def _moved(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.device) and self.device is not None:
            return torch.device(self.device)
        return self.dtype if leaf is self.from_dtype and self.dtype is not None else leaf
