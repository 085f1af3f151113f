"""Tables of the nodes that a backend can run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from fxcore.node import Node
from fxcore.passes.shape_prop import is_tensor_metadata
from fxcore.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain", "create_op_support"]

TargetTypeName = str
SupportedArgumentDTypes = tuple[Sequence[Sequence[torch.dtype] | None], dict[str, Sequence[torch.dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, nn.Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Answers for each node whether a backend can run it."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Return whether the backend can run `node`; `submodules` is `dict(model.named_modules())`."""


class OperatorSupport(OperatorSupportBase):
    """Answers from a table of target names and dtypes.

    Keys are as `get_node_target` gives them: `torch.relu`, `torch.nn.modules.linear.Linear`, `size`. A value of None
    supports every dtype. Another value is a pair: a dtype list for each positional argument (None: any), and one for
    keyword arguments by name. Arguments that are no values of the graph, and unlisted arguments, are not checked.
    """

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        """Support the targets in the table."""
        self._support_dict: SupportDict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Return whether the table lists the target of `node` and the dtypes that it reads. Other nodes are fine."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        supported = self._support_dict[target]
        if supported is None:
            return True
        by_position, by_name = supported
        pairs: list[tuple[Any, Sequence[torch.dtype] | None]] = list(zip(node.args, by_position, strict=False))
        pairs += [(node.kwargs.get(name), dtypes) for name, dtypes in by_name.items()]
        return all(
            _get_arg_dtype(arg) in dtypes for arg, dtypes in pairs if isinstance(arg, Node) and dtypes is not None
        )


class _FunctionalOperatorSupport(OperatorSupportBase):
    def __init__(self, is_supported: IsNodeSupported) -> None:
        self._is_supported = is_supported

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        return self._is_supported(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Make an OperatorSupportBase of a function of submodules and node."""
    return _FunctionalOperatorSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Support the nodes that all of `op_support` support."""
    return create_op_support(lambda modules, node: all(each.is_node_supported(modules, node) for each in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Support the nodes that any of `op_support` supports."""
    return create_op_support(lambda modules, node: any(each.is_node_supported(modules, node) for each in op_support))


class OpSupports:
    """Small rules, for `chain` and `any_chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: torch.dtype) -> OperatorSupportBase:
        """Refuse nodes that read a value of `dtype`."""
        return create_op_support(lambda modules, node: dtype not in map(_get_arg_dtype, node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Refuse nodes with a name in `disallow_set`."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    """Return the dtype that ShapeProp noted for a value, or its class if it is no tensor."""
    tensor_meta: Any = arg.meta.get("tensor_meta")
    return tensor_meta.dtype if is_tensor_metadata(tensor_meta) else arg.meta["type"]
