"""Flattening of inputs by a recorded tree. Generated code calls this file `fx_pytree`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten

from fxcore.errors import InterpreterError

FlattenFuncSpec = Callable[[Any, TreeSpec], list[Any]]
FlattenFuncExactMatchSpec = Callable[[Any, TreeSpec], bool]

SUPPORTED_NODES: dict[type[Any], FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type[Any], FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Take the children of a `cls` by the recorded tree, so that a larger container gives the recorded children only.

    The last argument is kept for torch.export: it answers whether a container has exactly the recorded children.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def spec_children(spec: TreeSpec) -> list[TreeSpec]:
    """Return the specs of the children of `spec`: a method in newer versions of torch, an attribute in older ones."""
    children = getattr(spec, "children", None)
    return list(children() if callable(children) else spec.children_specs)


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """Return the leaves of `tree` in the order of `spec`. Raises RuntimeError if the two have different forms."""
    if spec.is_leaf():
        return [tree]
    children_of = SUPPORTED_NODES.get(spec.type)
    if children_of is not None:
        leaves: list[Any] = []
        for child, child_spec in zip(children_of(tree, spec), spec_children(spec), strict=True):
            leaves += tree_flatten_spec(child, child_spec)
        return leaves
    leaves, real_spec = tree_flatten(tree)
    if real_spec != spec:
        raise InterpreterError(
            f"Real spec {real_spec} of object {tree} is different from expected spec {spec}: the inputs must be nested "
            "as those that the graph was traced with; trace again with concrete_args of the new structure"
        )
    return leaves


def _values_by_key(tree: Any, spec: TreeSpec) -> list[Any]:
    return [tree[key] for key in spec.context]


def _values_by_index(tree: Any, spec: TreeSpec) -> list[Any]:
    return [tree[index] for index in range(spec.num_children)]


def _has_recorded_length(tree: Any, spec: TreeSpec) -> bool:
    return len(tree) == spec.num_children


register_pytree_flatten_spec(dict, _values_by_key, _has_recorded_length)
# The spec of any named tuple has the function `namedtuple` as its type.
_sequences: list[Any] = [list, tuple, namedtuple, *torch.return_types.all_return_types]
for _sequence in _sequences:
    register_pytree_flatten_spec(_sequence, _values_by_index, _has_recorded_length)
