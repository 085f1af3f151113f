"""What a node calls, as one text: the key of tables of supported operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from fxcore.errors import GraphArgumentError
from fxcore.node import Node
from fxcore.node_data.targets import qualified_name

CALLABLE_NODE_OPS = frozenset({"call_module", "call_function", "call_method"})


def get_node_target(submodules: Mapping[str, nn.Module], node: Node) -> str:
    """Return the name of what `node` calls: a function's full name, a module's class, a method's name.

    Raises GraphArgumentError (an AssertionError) if it calls nothing.
    """
    target: Any = node.target
    if node.op == "call_method":
        return str(target)
    if node.op == "call_function":
        return _accelerator_name(target) or qualified_name(target)
    if node.op == "call_module":
        module = submodules[target]
        kind = getattr(module, "_base_class_origin", type(module))
        return _accelerator_name(kind) or f"{kind.__module__.replace('torch._ops', 'torch.ops')}.{kind.__name__}"
    raise GraphArgumentError(
        f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}: {node.name} calls nothing"
    )


def _accelerator_name(target: Any) -> str | None:
    """Return the short name that functions of fx2trt's `acc_ops` go by."""
    return f"acc_ops.{target.__name__}" if "acc_ops" in (target.__module__ or "") else None
