"""Modules that exchanged places: the calls around them read the same values in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import home, relative_path
from pytest_fxgraph.compare.edits.regions import block_of
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.document.literals import references


class _Call(NamedTuple):
    """A call in both graphs that reads other values."""

    position: int
    partner: int
    changes: Sequence[Change]


# First and last position of the nodes of each module.
_Spans = Mapping[str, tuple[int, int]]


def exchanged_modules(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find modules of one block that run in another order, if the calls there read the same values as before."""
    of_block: dict[str, list[_Call]] = {}
    for position, partner, changes in graph.pair_changes():
        wiring = [change for change in changes if change.kind == "wiring"]
        if wiring:
            block = block_of(graph.obtained.nodes[partner].scope)
            of_block.setdefault(block, []).append(_Call(position, partner, wiring))
    spans, other_spans = (_spans(index, of_block) for index in (graph.expected, graph.obtained))
    for block, own in of_block.items():
        others = [call for other, calls in of_block.items() if other != block for call in calls]
        behind = [call for call in others if _reads_block_alone(graph, block, call)]
        read, now_read = (_values_read(graph, block, [*own, *behind], is_obtained) for is_obtained in (False, True))
        if read != now_read:
            continue
        sources = {_inside(graph, name, block) for name in read}
        read_spans = {name: span for name, span in spans[block].items() if name in sources}
        text = _moved_module(read_spans, other_spans[block])
        if text:
            site = graph.site(block, [call.position for call in own], [call.partner for call in own])
            changes = [change for call in [*own, *behind] for change in call.changes]
            yield Occurrence("moved", text, ("moved", text), site, changes)


def _values_read(graph: ComparedGraph, block: str, calls: Sequence[_Call], is_obtained: bool) -> Counter[str]:
    """Count the values that calls read; values from outside of the block have one name."""
    names = _references(calls, is_obtained)
    return Counter(name if _block_of_node(graph, name) == block else "" for name in names)


def _references(calls: Iterable[_Call], is_obtained: bool) -> list[str]:
    changes = [change for call in calls for change in call.changes]
    return [name for change in changes for name in references(change.obtained if is_obtained else change.expected)]


def _block_of_node(graph: ComparedGraph, name: str) -> str | None:
    position = graph.position(name)
    return None if position is None else block_of(home(graph.obtained.nodes[position]))


def _reads_block_alone(graph: ComparedGraph, block: str, call: _Call) -> bool:
    """Return whether a call behind a block reads the result of another module of the block."""
    names = [*_references([call], False), *_references([call], True)]
    return bool(block) and all(_block_of_node(graph, name) == block for name in names)


def _inside(graph: ComparedGraph, name: str, block: str) -> str:
    """Return the module right inside a block that an obtained node belongs to; "" for any other node."""
    position = graph.position(name)
    path = "" if position is None else home(graph.obtained.nodes[position])
    return relative_path(path, block).partition(".")[0] if block_of(path) == block else ""


def _spans(index: GraphIndex, blocks: Iterable[str]) -> dict[str, dict[str, tuple[int, int]]]:
    """Map the modules right inside each block to the first and last position of their nodes."""
    found: dict[str, dict[str, tuple[int, int]]] = {block: {} for block in blocks}
    for position, node in enumerate(index.nodes if found else ()):
        path = home(node)
        block = block_of(path)
        if block in found and path != block and node.op != "get_attr":
            name = relative_path(path, block).partition(".")[0]
            spans = found[block]
            spans[name] = spans.get(name, (position, position))[0], position
    return found


def _moved_module(spans: _Spans, others: _Spans) -> str:
    """Tell the one module that moved past others; "" for equal orders, and where more than one module moved."""
    names = [name for name in spans if name in others]
    passed = [
        (name, other)
        for name in names
        for other in names
        if spans[name][1] < spans[other][0] and others[other][1] < others[name][0]
    ]
    moved = {*names}.intersection(*map(set, passed)) if passed else set()
    if len(passed) == 1:
        early, late = passed[0]
        return f"{late} moved from after to before {early}"
    if len(moved) != 1:
        return ""
    name = moved.pop()
    if passed[0][0] == name:
        return f"{name} moved from before {passed[0][1]} to after {passed[-1][1]}"
    return f"{name} moved from after {passed[-1][0]} to before {passed[0][0]}"
