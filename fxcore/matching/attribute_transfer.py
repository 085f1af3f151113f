"""Transfer of modules and tensors from a replacement into the module that is rewritten."""

from __future__ import annotations

import copy
import re
from collections.abc import Container, Mapping
from typing import Any

import torch
from torch import nn

from fxcore.errors import GraphError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute, has_attribute, set_attribute

# Tracing makes these names, so equal names in two modules mean nothing.
_NAMED_BY_TRACING = re.compile(r"(_tensor_constant|_torchbind_obj|_tree_spec_constant)\d+").fullmatch


def names_for_constants(gm: GraphModule, graph: Graph) -> dict[str, str]:
    """Return other names for the constants of `graph` whose names mean other objects in `gm`."""
    source = graph.owning_module
    taken: set[str] = set()
    names: dict[str, str] = {}
    for path in dict.fromkeys(paths_in(graph)):
        if source is None or not _NAMED_BY_TRACING(path) or not hasattr(source, path):
            continue
        if hasattr(gm, path) and not _are_same_constant(getattr(gm, path), getattr(source, path)):
            names[path] = _free_name(gm, path, taken)
            taken.add(names[path])
    return names


def paths_in(graph: Graph) -> list[str]:
    """Return the paths that a graph reads or calls."""
    return [node.target for node in graph.nodes if node.op in ("call_module", "get_attr")]


def _are_same_constant(ours: Any, theirs: Any) -> bool:
    if ours is theirs:
        return True
    if not isinstance(ours, torch.Tensor) or not isinstance(theirs, torch.Tensor):
        return False
    alike = ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.device == theirs.device
    return alike and not ours.is_meta and torch.equal(ours, theirs)


def _free_name(gm: GraphModule, path: str, taken: set[str]) -> str:
    stem = path.rstrip("0123456789")
    number = 0
    while hasattr(gm, f"{stem}{number}") or f"{stem}{number}" in taken:
        number += 1
    return f"{stem}{number}"


def rename_paths(nodes: list[Node], names: Mapping[str, str]) -> None:
    """Replace the targets of nodes that lie at or below a path in `names`."""
    for node in nodes:
        if node.op in ("call_module", "get_attr"):
            node.target = renamed(node.target, names)


def renamed(path: str, names: Mapping[str, str]) -> str:
    """Return `path` with its longest part in `names` replaced by the part's new name."""
    above = path
    while above not in names:
        above, _, _ = above.rpartition(".")
        if not above:
            return path
    return names[above] + path[len(above) :]


def copy_used_attributes(gm: GraphModule, graph: Graph, names: Mapping[str, str], skipped: Container[str]) -> None:
    """Copy the objects that `graph` uses and `gm` lacks from the owner of `graph` to `gm`. Skip the `skipped` paths."""
    source = graph.owning_module
    for path in dict.fromkeys(paths_in(graph)):
        if path in skipped:
            continue
        new_path = renamed(path, names)
        if source is not None and has_attribute(source, path) and not has_attribute(gm, new_path):
            set_attribute(gm, new_path, copy.deepcopy(get_attribute(source, path)))


def copy_all_attributes(gm: GraphModule, replacement: nn.Module, names: Mapping[str, str]) -> None:
    """Copy the objects that the graph of `gm` uses from `replacement`; remove unused submodules of `gm`.

    Objects in `gm` stay. Raises GraphError (a RuntimeError) if an object is in neither module.
    """
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    original_names = {new: original for original, new in names.items()}
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _is_there(gm, node.target):
            continue
        path = renamed(node.target, original_names)
        if not _is_there(replacement, path):
            raise GraphError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule; install it there, or in the "
                "module that is rewritten"
            )
        set_attribute(gm, node.target, copy.deepcopy(get_attribute(replacement, path)))
    gm.graph.lint()


def _is_there(module: nn.Module, path: str) -> bool:
    return has_attribute(module, path) and get_attribute(module, path) is not None
