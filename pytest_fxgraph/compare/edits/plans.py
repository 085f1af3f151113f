"""Changes of a parallel plan: the world, the mesh, groups of equal ranks, placements, and collectives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import moves_values_only, operator_name
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.document.capture_notes import CONSTANT, PLACEMENT, RANKS, WORLD
from pytest_fxgraph.document.collective_names import collective_kind
from pytest_fxgraph.grouping import grouped

_BLOCK = re.compile(r"(?<=\.)\d+(?=\.)")
_GROUP = re.compile(r"process_group\((?:(?P<name>[^=]+), )?(?P<ranks>size=.+|offsets=.+)\)")
_TENSOR = re.compile(r"\b(?:b?float|u?int|complex)(\d+)\w*\[([\d, ]*)\]|\b(bool)\[([\d, ]*)\]")
# The beginning of a note that two goldens share if the notes are about one thing.
_ABOUT = {WORLD: re.compile(""), PLACEMENT: re.compile(r"[^:]*: "), CONSTANT: re.compile(r".*? (?=is |are |differ)")}
_RUN = re.compile(r"(?P<ranks>.+) run graph_\d+")


def changed_plans(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find what the notes of a golden of ranks tell otherwise."""
    for kind in (WORLD, RANKS, PLACEMENT, CONSTANT):
        gone, come = (
            [change for change in graph.changes if change.subject == kind and change.action == action]
            for action in ("removed", "added")
        )
        if kind == RANKS and (gone or come):
            text = _ranks_in_words(*([change.operator for change in side] for side in (gone, come)))
            yield Occurrence(kind, text, (kind, text), graph.site(""), [*gone, *come])
        elif gone or come:
            yield from _pairs(graph, kind, gone, come)


def _pairs(graph: ComparedGraph, kind: str, gone: Sequence[Change], come: Sequence[Change]) -> Iterator[Occurrence]:
    """Pair notes about one thing, and tell alike changes of repeated blocks as one edit."""
    sides: tuple[dict[str, Change], dict[str, Change]] = ({}, {})
    for side, changes in zip(sides, (gone, come), strict=True):
        for change in changes:
            about = _ABOUT[kind].match(change.operator)
            side["" if about is None else about[0]] = change
    transitions = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get(name) for side in sides]
        texts = ["" if change is None else change.operator.removeprefix(name) for change in found]
        path, changes = name.rstrip(": "), [change for change in found if change is not None]
        transitions.append((path, _transition(kind, *texts), changes))
    alike = Counter((_BLOCK.sub("*", path), text) for path, text, _ in transitions)
    for path, text, changes in transitions:
        general = _BLOCK.sub("*", path) if alike[_BLOCK.sub("*", path), text] > 1 else path
        subject = "placements" if kind == PLACEMENT and text.startswith("on ") else general
        told = f"{subject}: {text}" if subject else text
        yield Occurrence(kind, told, (kind, told), graph.site(""), changes)


def _transition(kind: str, before: str, after: str) -> str:
    if kind == WORLD:
        sizes = [text.partition(", mesh ") for text in (before, after)]
        if all(mesh for *_, mesh in sizes) and sizes[0][0] == sizes[1][0]:
            return f"a mesh of {sizes[0][2]} -> {sizes[1][2]}"
        return f"the world has {before or 'one process'} -> {after or 'one process'}"
    if kind == CONSTANT:
        before, after = (re.sub("^(is|are) ", "", text) for text in (before, after))
        return f"constant of the rank {before or 'none'} -> {after or 'none'}"
    parts = [[each.rpartition(" on ") for each in text.split(", ")] for text in (before, after)]
    meshes = [[mesh for *_, mesh in side] for side in parts]
    if meshes[0] == meshes[1]:  # tell the dimensions in which the placement differs
        pairs = zip(*parts, strict=True)
        return ", ".join([f"{first[0]} -> {second[0]} on {first[2]}" for first, second in pairs if first != second])
    if [placed for placed, *_ in parts[0]] == [placed for placed, *_ in parts[1]]:
        return f"on {', '.join(meshes[0])} -> on {', '.join(meshes[1])}"
    return f"{before or 'not distributed'} -> {after or 'not distributed'}"


def _ranks_in_words(gone: Sequence[str], come: Sequence[str]) -> str:
    before, after = ([found["ranks"] for each in side if (found := _RUN.fullmatch(each))] for side in (gone, come))
    if len(after) > len(before) == 1:
        main, *others = sorted(after, key=lambda ranks: -_count(ranks))
        verb = "runs" if len(others) == 1 and others[0].isdecimal() else "run"
        noun = "rank" if verb == "runs" else "ranks"
        return f"{noun} {'; '.join(others)} {verb} another graph than ranks {main} now"
    if len(before) > len(after) == 1:
        return f"ranks {after[0]} run one graph now"
    return f"groups of equal ranks: {'; '.join(before or gone) or 'none'} -> {'; '.join(after or come) or 'none'}"


def _count(ranks: str) -> int:
    spans = [span.partition("-") for span in ranks.split(", ")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


# Collectives.


def changed_collectives(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find collectives that came or went, and the waits and views that belong to them."""
    sides = ((graph.expected, graph.lone_expected, graph.removed), (graph.obtained, graph.lone_obtained, graph.added))
    found: list[dict[str, list[int]]] = []
    for index, lone, changes in sides:
        # A module of a capture holds other collectives.
        calls = [n for n in sorted(lone) if index.nodes[n].op == "call_function" and n in changes]
        own = [n for n in calls if "collective" in index.nodes[n].effects]
        found.append(grouped(own, partial(_collective_text, index)))
    counts = [Counter({text: len(positions) for text, positions in side.items()}) for side in found]
    for number, (index, lone, changes) in enumerate(sides):
        for text, count in (counts[number] - counts[1 - number]).items():
            positions = found[number][text][-count:]
            members = _with_waits(index, positions, lone)
            told = f"{'-' if number == 0 else '+'}{count} {text}"
            site = graph.site("", **{("expected" if number == 0 else "obtained"): members})
            of_members = [changes[position] for position in members if position in changes]
            yield Occurrence("collective", told, ("collective", told), site, of_members)


def _collective_text(index: GraphIndex, position: int) -> str:
    """Describe a collective: `all_gather of 12 MB on tp`."""
    node = index.nodes[position]
    kind = collective_kind(operator_name(index, position).lstrip("_"))
    size = max([_bytes(node.value), *(_bytes(index.nodes[read].value) for read in index.inputs[position])])
    texts = (*node.args, *dict(node.kwargs).values())
    group = next((found for text in texts if (found := _GROUP.search(text))), None)
    where = "" if group is None else f" on {group['name'] or group['ranks'].replace('size=', 'a group of size ')}"
    return f"{kind}{f' of {_size_text(size)}' if size else ''}{where}"


def _with_waits(index: GraphIndex, positions: Sequence[int], lone: set[int]) -> list[int]:
    """Add the lone nodes that only wait for the collectives' results, or view them."""
    members = dict.fromkeys(positions)
    for position in sorted(lone):
        reads = index.inputs[position]
        is_wait = operator_name(index, position) in ("wait", "wait_tensor")
        if any(read in members for read in reads) and (is_wait or moves_values_only(index, [position])):
            members[position] = None
    return [*members]


def _bytes(value: str | None) -> int:
    total = 0
    for bits, shape, is_bool, bool_shape in _TENSOR.findall(value or ""):
        elements = 8 if is_bool else int(bits)
        for size in filter(None, (bool_shape if is_bool else shape).split(", ")):
            elements *= int(size)
        total += elements // 8
    return total


def _size_text(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"
