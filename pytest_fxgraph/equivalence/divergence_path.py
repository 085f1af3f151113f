"""The way of an error: the operators before eager and graph differ, the first different one, and the later ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import fxcore
from pytest_fxgraph.equivalence.operator_trace import Event
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.paired_operators import described, largest_error, outputs_differ
from pytest_fxgraph.report.numeric_failure import PathStep

_MOST_BEFORE = 3
_MOST_ALONE = 8  # operators that ran in one run alone
_FIRST_AFTER, _LAST_AFTER = 24, 8

Pair = tuple[Event, Event]  # of eager and of the graph


def divergence_path(
    pairs: Sequence[Pair],
    place: int | None,
    alone: tuple[Sequence[Event], Sequence[Event]],
    graph: Any,
    comparison: OutputComparison,
) -> tuple[PathStep, ...]:
    """Return the operators that lead to the first pair that differs, and the operators after it that read its values.

    `place` is the position of the pair among all pairs, None if all agree. `alone` holds the operators that only eager,
    and only the graph, ran right before. Without nodes of a graph, all operators before and after are on the way.
    """
    end = len(pairs) if place is None else place
    starts = {event.node for event in alone[1] if event.node}
    if place is not None and (name := pairs[place][1].node):
        starts.add(name)
    before, after = _names_before_and_after(graph, starts)
    steps = [_step(pair, "agrees") for pair in pairs[:end] if before is None or (pair[1].node or "") in before][
        -_MOST_BEFORE:
    ]
    steps += [*_lone(alone[0], "only eager"), *_lone(alone[1], "only graph")]
    if place is None:
        return tuple(steps)
    steps.append(_step(pairs[place], "first"))
    later = [pair for pair in pairs[end + 1 :] if after is None or (pair[1].node or "") in after]
    left_out = later[_FIRST_AFTER:-_LAST_AFTER]
    steps += [_judged(pair, comparison) for pair in later[:_FIRST_AFTER]]
    if left_out:
        steps.append(PathStep("left out", f"{len(left_out)} more operators"))
    steps += [_judged(pair, comparison) for pair in later[_FIRST_AFTER:][-_LAST_AFTER:]]
    return tuple(steps)


def _names_before_and_after(graph: Any, starts: Collection[str | None]) -> tuple[set[str] | None, set[str] | None]:
    """Return the names of the nodes that some nodes depend on, and of the nodes that depend on them."""
    if not isinstance(graph, fxcore.GraphModule) or not starts:
        return None, None
    nodes = list(graph.graph.nodes)
    before, after = ({node.name for node in nodes if node.name in starts} for _ in range(2))
    for node in reversed(nodes):
        if node.name in before:
            before.update(each.name for each in node.all_input_nodes)
    for node in nodes:
        if any(each.name in after for each in node.all_input_nodes):
            after.add(node.name)
    return before, after


def _lone(events: Sequence[Event], status: str) -> Iterator[PathStep]:
    for event in events[:_MOST_ALONE]:
        value = ", ".join(map(described, event.outputs or ()))
        if status == "only eager":
            yield PathStep(status, event.name, "", event.module, event.source() or "", value)
        else:  # the line that ran a node is that of the test
            yield PathStep(status, event.name, event.node or "", obtained=value)
    if len(events) > _MOST_ALONE:
        yield PathStep("left out", f"{len(events) - _MOST_ALONE} more operators, {status}")


def _judged(pair: Pair, comparison: OutputComparison) -> PathStep:
    return _step(pair, "differs" if outputs_differ(*pair, comparison) else "agrees")


def _step(pair: Pair, status: str) -> PathStep:
    eager, graph = pair
    error = None
    if eager.outputs is not None and graph.outputs is not None:
        error = largest_error(eager.outputs, graph.outputs)
    expected, obtained = (", ".join(map(described, event.outputs or ())) for event in pair)
    return PathStep(status, graph.name, graph.node or "", eager.module, eager.source() or "", expected, obtained, error)
