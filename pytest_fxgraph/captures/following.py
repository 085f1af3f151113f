"""Which node of one stage became which of the next: by names, by metadata, and by where it was made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import fxcore
from pytest_fxgraph.document.origins import Origins

_COMPUTING = ("call_function", "call_method", "call_module")


def computing_nodes(graph_module: fxcore.GraphModule) -> list[fxcore.Node]:
    """Return the nodes that compute, in their order, but for picking an item of a tuple."""
    return [
        node
        for node in graph_module.graph.nodes
        if node.op in _COMPUTING and getattr(node.target, "__name__", "") != "getitem"
    ]


def sources_of(before: Sequence[fxcore.Node], after: Sequence[fxcore.Node]) -> dict[fxcore.Node, list[fxcore.Node]]:
    """Map each node to the nodes of the stage before that it was made from; [] for one that nothing explains.

    Asked are, in this order: a node of the same name and target; `from_node`, which torch keeps in passes and in
    decompositions; `debug_handle`; the module and line of the user's that made it, and the module alone.
    """
    origins = Origins(sources=True)
    by_name = {node.name: node for node in before}
    by_origin: dict[Any, list[fxcore.Node]] = defaultdict(list)
    for node in before:
        for key in _marks(node, origins):
            by_origin[key].append(node)
    found: dict[fxcore.Node, list[fxcore.Node]] = {}
    for node in after:
        same = by_name.get(node.name)
        if same is not None and same.target == node.target:
            found[node] = [same]
            continue
        named = [by_name[name] for name in _made_from(node) if name in by_name]
        marked = (by_origin[key] for key in _marks(node, origins) if key in by_origin)
        found[node] = named[:1] or next(marked, [])
    return found


def _made_from(node: fxcore.Node) -> Iterator[str]:
    """Yield the names of the nodes that torch says a node was made from, the nearest first."""
    sources = [*(node.meta.get("from_node") or ())]
    while sources:
        source = sources.pop(0)
        # A pair in older releases of torch, an object that holds its own sources since.
        name = source[0] if isinstance(source, tuple) else getattr(source, "name", "")
        if name:
            yield str(name)
        sources = [*(getattr(source, "from_node", None) or ()), *sources]


def _marks(node: fxcore.Node, origins: Origins) -> Iterator[tuple[str, Any]]:
    """Yield what two nodes have in common that were made of one, the surest first."""
    handle = node.meta.get("debug_handle")
    if handle:
        yield "debug_handle", handle
    for name in _made_from(node):
        yield "from_node", name
    # What runs within a module that was called as one node before is made of that call.
    path = str(node.target) if node.op == "call_module" else origins.scope(node)
    line = origins.source(node)
    if line is not None:
        yield "line", (path, line)
    if path:
        yield "module", path
