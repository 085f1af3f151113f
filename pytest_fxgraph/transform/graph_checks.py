"""Checks of the graph that a transform made: well-formed, recompiled, without dead nodes, with the same inputs."""

from __future__ import annotations

from collections.abc import Mapping

import fxcore
from pytest_fxgraph.equivalence.check import code_is_stale


def check_graph(graph_module: fxcore.GraphModule, name: str, dead_before: frozenset[str]) -> None:
    """Check that the graph passes lint(), was recompiled and has no dead nodes but those of `dead_before`.

    Raises AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    try:
        graph_module.graph.lint()
        graph_module.graph.python_code("self")
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise AssertionError(f"{name} left a malformed graph: {first_line}") from error
    if code_is_stale(graph_module):
        raise AssertionError(
            f"{name} changed the graph and forgot recompile(): forward still runs the code from before; "
            "call graph_module.recompile() at the end of the transform"
        )
    left = sorted(dead_nodes(graph_module) - dead_before)
    if left:
        listed = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        raise AssertionError(
            f"{name} left nodes without users: {listed}; call graph.eliminate_dead_code() before recompile(), "
            "or erase_node() for each"
        )


def check_meta(
    graph_module: fxcore.GraphModule, name: str, before: Mapping[str, frozenset[str]], wanted: tuple[str, ...] | bool
) -> None:
    """Check that nodes which keep their name keep the entries of their meta: all (True), none (False), or those named.

    `before` is what meta_keys() returned before the transform. Raises AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    lost = []
    for node in graph_module.graph.nodes:
        had = before.get(node.name, frozenset())
        missing = sorted((had if wanted is True else had.intersection(wanted or ())) - set(node.meta))
        if missing:
            lost.append(f"{node.name} ({', '.join(missing)})")
    if lost:
        listed = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        raise AssertionError(
            f"{name} lost the meta of {listed}; copy it to the nodes that take their place "
            "(new.meta.update(old.meta), or graph.node_copy())"
        )


def inputs_of(graph_module: fxcore.GraphModule) -> list[tuple[str, str]]:
    """List the names of the inputs, each with the repr of its default, "" if it has none."""
    return [
        (str(node.target), repr(node.args[0]) if node.args else "")
        for node in graph_module.graph.nodes
        if node.op == "placeholder"
    ]


def check_inputs(graph_module: fxcore.GraphModule, name: str, before: list[tuple[str, str]]) -> None:
    """Check that the inputs keep their names, order and defaults; new ones may follow them.

    `before` is what inputs_of() returned before the transform. Raises AssertionError, naming the transform.
    """
    __tracebackhide__ = True
    after = inputs_of(graph_module)
    for index, (expected, default) in enumerate(before):
        if index >= len(after) or after[index][0] != expected:
            obtained = repr(after[index][0]) if index < len(after) else "gone"
            raise AssertionError(
                f"{name} changed the inputs: input {index} was {expected!r} and is {obtained}, so that callers who "
                "pass it by name, or those behind it, get another function; keep names and order of the placeholders"
            )
        if after[index][1] != default:
            raise AssertionError(
                f"{name} changed the inputs: the default of {expected!r} was {default or 'none'} and is "
                f"{after[index][1] or 'none'}; keep the arguments of the placeholder"
            )


def meta_keys(graph_module: fxcore.GraphModule) -> dict[str, frozenset[str]]:
    """Map the name of each node to the keys of its meta."""
    return {node.name: frozenset(node.meta) for node in graph_module.graph.nodes}


def dead_nodes(graph_module: fxcore.GraphModule) -> frozenset[str]:
    """Return the names of the nodes that have no users and no side effects."""
    return frozenset(node.name for node in graph_module.graph.nodes if not node.users and not node.is_impure())
