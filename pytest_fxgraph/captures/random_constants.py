"""Refuses a graph that differs in every run, because random numbers were drawn while it was traced."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import torch

import fxcore
from fxcore.node_data.attribute_paths import get_attribute
from pytest_fxgraph.captures.traced_graph import TracedGraph
from pytest_fxgraph.captures.tracing_failure import short_path
from pytest_fxgraph.errors import CaptureError
from pytest_fxgraph.rng import RngState, generators_kept

# Draws with few outcomes, such as which layers are dropped, may be the same twice.
_MOST_RETRIES = 4


def trace_reproducibly(name: str, trace_once: Callable[[], TracedGraph]) -> TracedGraph:
    """Call `trace_once`; if that used a random generator, call it again and compare the graphs.

    The generators end where the first trace left them, and a number that leaves nothing in the graph is allowed.
    Raises CaptureError, naming the node, if a second trace gives another graph.
    """
    before = RngState.now()
    first = trace_once()
    after = RngState.now()
    # Where numpy was imported while tracing, nobody knows whether its generator was used.
    if not before.differences(after) and (before.numpy is None) == (after.numpy is None):
        return first
    with generators_kept():
        for _ in range(_MOST_RETRIES):
            node = _first_difference(first, trace_once())
            if node is not None:
                raise CaptureError(_drawn_number_message(name, node))
    return first


def _first_difference(traced: TracedGraph, again: TracedGraph) -> fxcore.Node | None:
    """Return the first node that differs in the second trace, or is missing there."""
    others = iter(again.graph.nodes)
    for node in traced.graph.nodes:
        other = next(others, None)
        if other is None or _text(node) != _text(other) or not _reads_same_constant(traced, again, node):
            return node
    return None


def _text(node: fxcore.Node) -> tuple[str, ...]:
    target = node.target if isinstance(node.target, str) else str(id(node.target))
    return node.op, target, repr(node.args), repr(node.kwargs)


def _reads_same_constant(traced: TracedGraph, again: TracedGraph, node: fxcore.Node) -> bool:
    if node.op != "get_attr" or not node.meta.get("is_constant"):
        return True
    value, other = get_attribute(traced.root, node.target), get_attribute(again.root, node.target)
    if not isinstance(value, torch.Tensor) or value is other:
        return True
    # As texts, in which NaN equals itself.
    return value.dtype == other.dtype and repr(value.detach().tolist()) == repr(other.detach().tolist())


def _drawn_number_message(name: str, node: fxcore.Node) -> str:
    lines = [f"cannot trace {name}: it draws random numbers while it is traced, so that its graph differs in every run"]
    source = node.meta.get("source")
    if source is not None:
        file_name, line = source
        lines.append(f"  {short_path(file_name)}:{line}: {linecache.getline(file_name, line).strip()}")
    lines.append(
        f"Node {node.name!r} is the first that differs. Draw the number in __init__ and keep it as a buffer, "
        "or draw it from an input (torch.rand_like(x)), so that the graph does it"
    )
    return "\n".join(lines)
