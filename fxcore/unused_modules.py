"""Which submodules of a graph module does its graph not use?"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from torch import nn

from fxcore.node import Node


def unused_module_paths(module: nn.Module, nodes: Iterable[Node]) -> list[str]:
    """Return the paths of submodules that no node calls, reads from, or needs as part of one that it does."""
    used: set[str] = set()
    called: set[str] = set()
    for node in nodes:
        if node.op in ("call_module", "get_attr") and isinstance(node.target, str):
            used.update(accumulate(node.target.split("."), lambda path, name: f"{path}.{name}"))
            if node.op == "call_module":
                called.add(node.target)
    unused = []
    for path, _ in module.named_modules():
        if path in used:
            continue
        parents = accumulate(path.split("."), lambda above, name: f"{above}.{name}")
        if path and not any(parent in called for parent in parents):
            unused.append(path)
    return unused
