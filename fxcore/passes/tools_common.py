"""The target of a node as one text: the key of tables of supported operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from fxcore.errors import GraphArgumentError
from fxcore.node import Node
from fxcore.node_data.targets import qualified_name
from fxcore.passes.utils.fuser_utils import legalize_graph, stable_topological_sort

__all__ = [
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[torch.Tensor] | list[torch.Tensor]
TensorOrTensors = torch.Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = frozenset({"call_module", "call_function", "call_method"})


def get_node_target(submodules: Mapping[str, nn.Module], node: Node) -> str:
    """Return the name of a node's target: a function's full name, a module's class, a method's name.

    Raises GraphArgumentError (an AssertionError) if it calls nothing.
    """
    target: Any = node.target
    if node.op == "call_method":
        return str(target)
    if node.op == "call_function":
        return get_acc_ops_name(target) if _is_of_accelerator(target) else qualified_name(target)
    if node.op == "call_module":
        module = submodules[target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    raise GraphArgumentError(
        f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}: {node.name} calls nothing"
    )


def get_acc_ops_name(k: Any) -> str:
    """Return the full name of a function or class, the short one if it is of fx2trt's `acc_ops`; text as it is."""
    if isinstance(k, str):
        return k
    module = (k.__module__ or "").replace("torch._ops", "torch.ops")
    return f"acc_ops.{k.__name__}" if _is_of_accelerator(k) else f"{module}.{k.__name__}"


def _is_of_accelerator(target: Any) -> bool:
    return "acc_ops" in (target.__module__ or "")


def is_node_output_tensor(node: Node) -> bool:
    """Return whether `ShapeProp`, which must have run, saw a tensor as the value of `node`."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, torch.Tensor)
