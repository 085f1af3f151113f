"""Targets, by which a user names operators: a function, a module class, a method name, a glob over full names."""

from __future__ import annotations

import difflib
import functools
import operator
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload, OpOverloadPacket

import fxcore
from pytest_fxgraph.document.target_names import PUBLIC_MODULES, TargetNames, class_name
from pytest_fxgraph.errors import DocumentError, GateError

CALLS = ("call_function", "call_method", "call_module")


class TargetError(GateError, ValueError):
    """A target that can match no operator, so that asking for it always gives the same answer."""


def call_nodes(graph_module: fxcore.GraphModule) -> list[fxcore.Node]:
    """Return the nodes of a graph that call something."""
    return [node for node in graph_module.graph.nodes if node.op in CALLS]


def names_of_call(node: fxcore.Node, graph_module: fxcore.GraphModule) -> tuple[str, ...]:
    """Return the full names that a glob can match for a call; the first is the one to show."""
    if node.op == "call_method":
        return (str(node.target),)
    if node.op == "call_module":
        kind = type(graph_module.get_submodule(str(node.target)))
        return (class_name(kind), f"{kind.__module__}.{kind.__qualname__}")
    try:
        name = TargetNames(repr).name(node.target)
    except DocumentError:
        name = repr(node.target)
    return (name, f"{getattr(node.target, '__module__', '')}.{getattr(node.target, '__qualname__', '')}")


def matches(target: Any, node: fxcore.Node, graph_module: fxcore.GraphModule) -> bool:
    """Tell whether a node's call matches a target."""
    if isinstance(target, str):
        if _is_method_name(target):
            return node.op == "call_method" and node.target == target
        return any(fnmatchcase(name, target) for name in names_of_call(node, graph_module))
    if node.op == "call_module":
        return isinstance(target, type) and isinstance(graph_module.get_submodule(str(node.target)), target)
    if isinstance(target, OpOverloadPacket) and isinstance(node.target, OpOverload):
        return node.target.overloadpacket is target
    return node.op == "call_function" and node.target is target


def validate_target(target: Any, graph_module: fxcore.GraphModule) -> None:
    """Raise TargetError (a ValueError) if a target can match no operator, as far as that can be known."""
    if isinstance(target, nn.Module):
        raise TargetError(f"an operator is named by its class, not by a module: write {type(target).__name__}")
    if not isinstance(target, str):
        if not callable(target):
            raise TargetError(f"no operator can be named by {target!r}: give a function, a module class or a name")
        return
    if any(matches(target, node, graph_module) for node in call_nodes(graph_module)) or _could_match(target):
        return
    near = _names_near(target)
    hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
    what = "a method of Tensor" if _is_method_name(target) else "the name of any operator known here"
    raise TargetError(f"{target!r} could never match: it is not {what}{hint}")


def name_of_target(target: Any) -> str:
    """Return the name of a target as messages show it."""
    if isinstance(target, str):
        return target
    if isinstance(target, type):
        return class_name(target)
    try:
        return TargetNames(repr).name(target)
    except DocumentError:
        return repr(target)


def as_targets(targets: Any) -> list[Any]:
    """Return one target, or several, as a list."""
    if isinstance(targets, (str, type)) or not isinstance(targets, Iterable) or isinstance(targets, OpOverloadPacket):
        return [targets]
    return list(targets)


@functools.cache
def _known_names() -> tuple[str, ...]:
    """Return the sorted names of torch's operators, functions, methods and modules, and of Python's operators."""
    names = {f"operator.{name}" for name in dir(operator) if not name.startswith("_")}
    names |= {name for name in dir(torch.Tensor) if not name.startswith("_")}
    names |= {f"torch.nn.{name}" for name, value in vars(nn).items() if isinstance(value, type)}
    for module in PUBLIC_MODULES:
        names |= {f"{module}.{name}" for name, value in vars(sys.modules[module]).items()
                  if callable(value) and not name.startswith("_")} if module in sys.modules else set()  # fmt: skip
    names |= {name.replace("::", ".") for name in torch._C._dispatch_get_all_op_names()}
    names |= {f"{name}.default" for name in names if name.startswith("aten.") and name.count(".") == 1}
    return tuple(sorted(names))


def _names_near(target: str) -> list[str]:
    """Find names that may have been meant: the same name in a module, torch's own first, then similar names."""
    same = sorted((name for name in _known_names() if name.endswith(f".{target}")), key=_rank)[:3]
    alike = difflib.get_close_matches(target, _known_names(), n=3, cutoff=0.7)
    return same + [name for name in alike if name not in same]


def _rank(name: str) -> tuple[int, str]:
    roots = ("torch", "operator", "aten")
    root = name.partition(".")[0]
    return (roots.index(root) if root in roots else len(roots)), name


def _is_method_name(target: str) -> bool:
    return target.isidentifier()


def _could_match(target: str) -> bool:
    if any(fnmatchcase(name, target) for name in _known_names()):
        return True
    if _is_method_name(target):
        return hasattr(torch.Tensor, target)
    root = target.partition(".")[0]
    # What a package of the user's holds, and which of it is wrapped, cannot be told from outside.
    return any(sign in root for sign in "*?[") is False and root in sys.modules and root not in ("torch", "operator")
