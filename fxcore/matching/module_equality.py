"""Equality of a module in a pattern and a module in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fxcore.errors import GraphArgumentError
from fxcore.matching.literals import constants_equal
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, has_attribute

_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device)


def module_comparison(name: str) -> Callable[[Node, Node], bool]:
    """Return the comparison of two call_module nodes for `match_modules=name`: "path", "class" or "config".

    Raises GraphArgumentError (an AssertionError) for any other name.
    """
    try:
        return _COMPARISONS[name]
    except KeyError:
        raise GraphArgumentError(
            f"match_modules={name!r} is none of {', '.join(map(repr, _COMPARISONS))}: modules can be matched by their "
            "path, by their class, or by class and hyper-parameters"
        ) from None


def _have_same_path(expected: Node, obtained: Node) -> bool:
    return bool(expected._target == obtained._target)


def _have_same_class(expected: Node, obtained: Node) -> bool:
    return type(value_of(expected)) is type(value_of(obtained))


def _have_same_config(expected: Node, obtained: Node) -> bool:
    return have_same_config(value_of(expected), value_of(obtained))


_COMPARISONS = {"path": _have_same_path, "class": _have_same_class, "config": _have_same_config}


def stand_for_one_each(nodes_map: dict[Node, Any]) -> bool:
    """Return whether each module of a pattern, called once or more often, matches a single module."""
    modules: dict[str, Any] = {}
    for expected, obtained in nodes_map.items():
        if expected._op == "call_module" and obtained._op == "call_module":
            module = value_of(obtained)
            if modules.setdefault(str(expected._target), module) is not module:
                return False
    return True


def have_same_config(expected: nn.Module, obtained: nn.Module) -> bool:
    """Return whether two modules have one class, equal hyper-parameters and equal shapes of state, down to the leaves.

    Values of parameters and buffers, and the training flag, may differ.
    """
    if type(expected) is not type(obtained):
        return False
    if not constants_equal(_hyper_parameters(expected), _hyper_parameters(obtained)):
        return False
    if _state_shapes(expected) != _state_shapes(obtained):
        return False
    children, counterparts = dict(expected.named_children()), dict(obtained.named_children())
    return children.keys() == counterparts.keys() and all(
        have_same_config(child, counterparts[name]) for name, child in children.items()
    )


def differing_settings(expected: nn.Module, obtained: nn.Module) -> list[str]:
    """Return the differing hyper-parameters of two modules of one class as texts: "stride is (1, 1) and (2, 2)"."""
    ours, theirs = _hyper_parameters(expected), _hyper_parameters(obtained)
    return [
        f"{name} is {ours.get(name)!r} and {theirs.get(name)!r}"
        for name in {**ours, **theirs}
        if not constants_equal(ours.get(name), theirs.get(name))
    ]


def _hyper_parameters(module: nn.Module) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and _is_plain(value)
    }


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _state_shapes(module: nn.Module) -> dict[str, Any]:
    state = {**module._parameters, **module._buffers}
    return {name: value if value is None else (value.shape, value.dtype) for name, value in state.items()}


def value_of(node: Node) -> Any:
    """Return the object at the target of a call_module or get_attr node, below the module that owns its graph.

    Raises GraphArgumentError (an AssertionError) if the graph has no such module, or the module no such object.
    """
    owner, path = node.graph.owning_module, str(node._target)
    if owner is None or not has_attribute(owner, path):
        raise GraphArgumentError(
            f"cannot look up {path!r} of node {node._name!r}: its graph must not be without an owning_module "
            "that has it; pass a GraphModule, or a module or function to be traced, in place of a Graph"
        )
    return get_attribute(owner, path)
