"""Operators that were replaced, inserted, removed or moved, and calls that are spelled otherwise."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.arguments import REMOVED, told_arguments
from pytest_fxgraph.compare.edits.blocks import repeated_runs
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.interface import output_text
from pytest_fxgraph.compare.edits.operator_words import (
    common_path,
    described_node,
    described_state,
    listed_operators,
    moves_values_only,
    operator_name,
    own_name,
    relative_path,
    spelled_operator,
    without_numbers,
    without_tensors,
)
from pytest_fxgraph.compare.edits.regions import Region, regions_of
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.compare.normalization import are_one_operator
from pytest_fxgraph.document.literals import references
from pytest_fxgraph.grouping import grouped

# What the operators of an inserted pair do to a value, with the operand in place of the braces.
_WITH_OPERAND = {
    "mul": ("{value} is multiplied by {operand}", "{value} is no longer multiplied by {operand}"),
    "add": ("{operand} is added to {value}", "{operand} is no longer added to {value}"),
    "sub": ("{operand} is subtracted from {value}", "{operand} is no longer subtracted from {value}"),
    "div": ("{value} is divided by {operand}", "{value} is no longer divided by {operand}"),
}
_SAME_OPERATORS = {"truediv": "div", "mul_": "mul", "add_": "add", "sub_": "sub", "div_": "div", "multiply": "mul"}
# The table of operators has no fact for a cast or a copy, and to it a transpose is a view like any other.
_KINDS = {
    "cast": [
        "to",
        "type",
        "float",
        "half",
        "double",
        "bfloat16",
        "int",
        "long",
        "type_as",
        "_to_copy",
        "convert_element_type",
    ],
    "copy": ["clone", "contiguous", "copy_", "copy", "lift_fresh_copy"],
    "transpose": ["transpose", "permute", "t", "T", "mT", "swapaxes", "movedim"],
}
# Names of torch, of torch.ao and of its dialects; the table marks the four that quantize a tensor's storage.
_QUANTIZING = ("quantize", "fake_quant", "dequant")


class _Edge(NamedTuple):
    """The edge that a region was put on or taken from."""

    value: int  # node before the region
    reader: int  # node behind the region


def replaced_operators(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find operators that were replaced, inserted, removed or moved."""
    regions, moved = _regions_and_moves(graph)
    calls = [*_moved_calls(graph, [region for region in regions if id(region) not in moved])]
    if calls:
        yield from calls
        for call in calls:
            graph.leave_out(call.site)
        regions, moved = _regions_and_moves(graph)
    for region in regions:
        occurrence = moved.get(id(region))
        if id(region) not in moved:
            is_one_sided = not (region.expected and region.obtained)
            occurrence = _one_sided(graph, region) if is_one_sided else _replaced(graph, region)
            occurrence = _with_interface(graph, region, occurrence)
        if occurrence is not None:
            yield occurrence


def _with_interface(graph: ComparedGraph, region: Region, occurrence: Occurrence) -> Occurrence:
    """Tell the added and removed inputs that a region reads, and the results that come or go with it."""
    text, key, changes = occurrence.text, occurrence.key, [*occurrence.changes]
    for name, change in graph.lone_inputs(region.expected, region.obtained):
        named = f"the {'new' if change.action == 'added' else 'removed'} input {name}"
        text, count = re.subn(rf"\binput {re.escape(name)}\b", named, text)
        text = text if count else f"{text} with {named}"
        changes.append(change)
        key = (*key, named)
    returned = _returned(graph, region)
    if returned:
        text, key = f"{text}: {output_text(graph, returned[0])}", (*key, "returned")
    return occurrence._replace(text=text, key=key, changes=changes + returned)


def _returned(graph: ComparedGraph, region: Region) -> list[Change]:
    """Return the changes of the output, if it differs by results of a region of one graph alone."""
    if bool(region.expected) == bool(region.obtained):
        return []
    changes = [change for found in graph.changed.values() for change in found if change.subject == "output"]
    form = next((change for change in changes if change.field.startswith("args")), None)
    if form is None:
        return []
    results, others = ({*references(text)} for text in (form.expected, form.obtained))
    more, fewer = (others, results) if region.obtained else (results, others)
    index, own = (graph.obtained, region.obtained) if region.obtained else (graph.expected, region.expected)
    end = "" if region.obtained else REMOVED
    text = form.obtained if region.obtained else form.expected
    names = {index.nodes[position].name for position in own}
    is_own = fewer < more and more - fewer <= names and all(f"%{name}{end}" in text for name in more - fewer)
    return sorted(changes, key=lambda change: change is not form) if is_own else []


def _site(graph: ComparedGraph, region: Region, kind: str, text: str, key: Sequence[str]) -> Occurrence:
    site = graph.site(region.where, region.expected, region.obtained)
    return Occurrence(kind, text, (kind, *key), site, region.changes)


def _replaced(graph: ComparedGraph, region: Region) -> Occurrence:
    calls = without_tensors(graph.expected, region.expected) or region.expected
    obtained_calls = without_tensors(graph.obtained, region.obtained) or region.obtained
    spelled = [spelled_operator(graph.expected, n) for n in calls]
    obtained_spelled = [spelled_operator(graph.obtained, n) for n in obtained_calls]
    kind = _kind_of(graph.obtained, obtained_calls, "replaced")
    key = (" ".join(spelled), " ".join(obtained_spelled))
    beside = _beside_kept(graph, region)
    if beside is not None:
        return beside
    if len(calls) > 1 or len(obtained_calls) > 1:
        text = f"{_side(graph, calls, is_added=False)} -> {_side(graph, obtained_calls, is_added=True)}"
    elif spelled != obtained_spelled:
        text = f"{spelled[0]} -> {obtained_spelled[0]}"
        if _is_spelling(graph, region):
            kind, text = "spelling", f"{text} (normalize=True makes them equal)"
    else:
        told = told_arguments(graph, obtained_calls[0], graph.changed.get(obtained_calls[0], ()), region.where)
        targets = graph.expected.nodes[calls[0]].target, graph.obtained.nodes[obtained_calls[0]].target
        if targets[0] != targets[1]:
            told = " -> ".join(relative_path(target, common_path((*targets, region.where))) for target in targets)
        kind, text, key = "argument", f"{spelled[0]} {told}", (spelled[0], without_numbers(told))
    return _site(graph, region, kind, text, key)


def _side(graph: ComparedGraph, calls: Sequence[int], is_added: bool) -> str:
    """List the calls of one side of a replacement, with their module if the other graph lacks it."""
    index, other = (graph.obtained, graph.expected) if is_added else (graph.expected, graph.obtained)
    module = _own_module(graph, calls, is_added) if len(calls) > 1 else ""
    return f"module {module} ({listed_operators(index, calls)})" if module else listed_operators(index, calls, other)


def _beside_kept(graph: ComparedGraph, region: Region) -> Occurrence | None:
    """Tell nodes that were added or removed before calls that are in both graphs, as operands of a `cat` are."""
    partners = graph.alignment.obtained_of
    kept = {partners[n] for n in region.expected if partners[n] >= 0 and partners[n] not in graph.replaced}
    gone = [n for n in region.expected if partners[n] not in kept]
    come = [n for n in region.obtained if n not in kept]
    if not kept or bool(gone) == bool(come):
        return None
    index, other = (graph.obtained, graph.expected) if come else (graph.expected, graph.obtained)
    calls = without_tensors(index, come or gone) or come or gone
    readers = sorted(kept)
    named = spelled_operator(index, calls[0]) if len(calls) == 1 else _side(graph, calls, is_added=bool(come))
    own = own_name(index, calls[0], other) if len(calls) == 1 else ""
    named = f"{own} ({named})" if own else named
    place = listed_operators(graph.obtained, readers)
    text = f"{named} {'added' if come else 'removed'} before {place}"
    kind = _kind_of(index, calls, "inserted" if come else "removed")
    operators = " ".join(spelled_operator(index, n) for n in calls)
    return _site(graph, region, kind, text, (operators, place))


def _is_spelling(graph: ComparedGraph, region: Region) -> bool:
    if len(region.expected) > 1 or len(region.obtained) > 1:
        return False
    if not graph.reads_the_same(region.expected[0], region.obtained[0]):
        return False
    sides = (graph.expected, region.expected), (graph.obtained, region.obtained)
    return are_one_operator(*((index.nodes[positions[0]], index.modules) for index, positions in sides))


def _kind_of(index: GraphIndex, positions: Sequence[int], kind: str) -> str:
    """Name the kind of an edit after the operators: a cast, a copy, a transpose, a quantisation."""
    names = {operator_name(index, n) for n in positions}
    if any(index.operator(n).startswith("torch.ao.nn.") for n in positions):
        return "quantized"
    if any(name.lower().startswith(_QUANTIZING) for name in names):
        return "quantized"
    if kind in ("inserted", "removed"):
        kind = next((each for each, members in _KINDS.items() if names and names <= {*members}), kind)
        return "reshaped" if kind in ("inserted", "removed") and moves_values_only(index, positions) else kind
    return kind


# Regions of one graph alone.


def _one_sided(graph: ComparedGraph, region: Region) -> Occurrence:
    is_added = bool(region.obtained)
    index, positions = (graph.obtained, region.obtained) if is_added else (graph.expected, region.expected)
    positions = _without_read_dtypes(index, positions)
    kind = "inserted" if is_added else "removed"
    edge = _edge(graph, region)
    calls = without_tensors(index, positions)
    tensors = [n for n in positions if index.nodes[n].op == "get_attr"]
    roles = [_role(index, n) for n in tensors]
    if not calls:
        text = f"{' and '.join(_tensor(index, n) for n in tensors)} {'added' if is_added else 'removed'}"
        return _site(graph, region, kind, text, roles)
    runs = repeated_runs(graph, region.where, calls, is_added)
    if runs is not None:
        return runs._replace(changes=region.changes)
    value = _before(graph, region) if edge is None else edge.value
    name = "" if value is None else described_node(index, value, region.where)
    is_module = len(calls) > 1 and bool(_own_module(graph, calls, is_added))
    operand = "" if edge is None or is_module else _operand(graph, region, calls, edge)
    text = _operand_text(index, calls[-1], name, operand, is_added) if operand else ""
    if not text:
        words = {(True, True): "inserted", (True, False): "added"}.get((is_added, edge is not None), "removed")
        operands = f" with {' and '.join(_tensor(index, n, is_added) for n in tensors)}" if tensors else ""
        named = spelled_operator(index, calls[0]) if len(calls) == 1 else _side(graph, calls, is_added)
        text = f"{named}{operands} {words}{f' after {name}' if name else ''}"
    operators = " ".join(spelled_operator(index, n) for n in calls)
    return _site(graph, region, _kind_of(index, calls, kind), text, (operators, name, *roles))


def _without_read_dtypes(index: GraphIndex, positions: Sequence[int]) -> list[int]:
    """Leave out the reads of a dtype that a cast gets: `x.to(y.dtype)` is one operator to a reader."""
    casts = {n for n in positions if operator_name(index, n) in _KINDS["cast"]}
    return [
        n
        for n in positions
        if index.nodes[n].args[1:] != ('"dtype"',) or casts.isdisjoint(reader for reader, _ in index.users[n])
    ]


def _operand(graph: ComparedGraph, region: Region, calls: Sequence[int], edge: _Edge) -> str:
    """Name the other operand of the last call of a region: a tensor, a number, an input, or a call of the region."""
    is_added = bool(region.obtained)
    index = graph.obtained if is_added else graph.expected
    node, inputs = index.nodes[calls[-1]], index.inputs[calls[-1]]
    others = [n for n in inputs if n != edge.value]
    numbers = [text for text in node.args if "%" not in text]
    if node.kwargs or len(node.args) != 2 or len(others) + len(numbers) != 1:
        return ""
    if others and others[0] in calls:
        inner = index.nodes[others[0]]
        if len(calls) == 2 and inner.op == "call_module":
            return f"the output of {inner.target.rpartition('.')[2]} ({spelled_operator(index, others[0])})"
        module = _own_module(graph, calls[:-1], is_added)
        listed = listed_operators(index, calls[:-1])
        return f"the output of {module} ({listed})" if module else f"the result of {listed}"
    if len(calls) > 1:
        return ""
    if numbers:
        return numbers[0]
    if index.nodes[others[0]].op == "get_attr":
        return _tensor(index, others[0], is_added)
    name = described_node(index, others[0], region.where)
    return f"the result of {name}" if name == operator_name(index, others[0]) else name


def _own_module(graph: ComparedGraph, calls: Sequence[int], is_added: bool) -> str:
    """Name the module of calls that the other graph lacks altogether; "" if there is none."""
    index, other = (graph.obtained, graph.expected) if is_added else (graph.expected, graph.obtained)
    path = common_path(index.nodes[n].scope or "" for n in calls)
    is_whole = len(index.calls_inside.get(path, ())) == len(calls)
    is_known = path in other.calls_inside or path in other.modules
    return path.rpartition(".")[2] if path and is_whole and not is_known else ""


def _operand_text(index: GraphIndex, call: int, name: str, operand: str, is_added: bool) -> str:
    """Tell an arithmetic operator and its operand; "" for any other operator."""
    operator = operator_name(index, call)
    words = _WITH_OPERAND.get(_SAME_OPERATORS.get(operator, operator))
    if words is None or not name:
        return ""
    value = name if name.startswith("input ") else f"{name}'s output"
    return words[0 if is_added else 1].format(value=value, operand=operand)


def _tensor(index: GraphIndex, position: int, is_new: bool = False) -> str:
    path = index.nodes[position].target
    record = index.state.get(path)
    if record is None:
        return described_state(path, "")
    noun = f"a new {record.kind}" if is_new else f"the {record.kind}"
    return f"{noun} {described_state(path, record.value)}"


def _role(index: GraphIndex, position: int) -> str:
    path = index.nodes[position].target
    record = index.state.get(path)
    return f"{record.kind if record else 'attribute'} {path.rpartition('.')[2]}"


def _edge(graph: ComparedGraph, region: Region) -> _Edge | None:
    """Return the edge that a region was inserted on, or removed from; None for any other region."""
    is_added = bool(region.obtained)
    index, other = (graph.obtained, graph.expected) if is_added else (graph.expected, graph.obtained)
    partners = graph.alignment.expected_of if is_added else graph.alignment.obtained_of
    own = set(region.obtained or region.expected)
    read = {partners[n]: n for position in own for n in index.inputs[position] if n not in own and partners[n] >= 0}
    for position in sorted(own, reverse=True):
        for reader, place in index.users[position]:
            partner = partners[reader]
            inputs = other.inputs[partner] if partner >= 0 else ()
            if place < len(inputs) and inputs[place] in read:
                return _Edge(read[inputs[place]], reader)
    return None


def _before(graph: ComparedGraph, region: Region) -> int | None:
    """Return the last node that a region reads."""
    index, own = (graph.obtained, region.obtained) if region.obtained else (graph.expected, region.expected)
    read = {n for position in own for n in index.inputs[position]} - set(own)
    return max(read, default=None)


# Moves.


def _regions_and_moves(graph: ComparedGraph) -> tuple[list[Region], dict[int, Occurrence | None]]:
    """Return all regions, and a map as of `_moved`."""
    regions = regions_of(graph)
    gone = [region for region in regions if not region.obtained]
    come = [region for region in regions if not region.expected]
    moved = _moved(graph, gone, come) | _exchanged(graph, regions)
    return regions, moved | _casts_around(graph, gone, is_added=False) | _casts_around(graph, come, is_added=True)


def _casts_around(graph: ComparedGraph, regions: Sequence[Region], is_added: bool) -> dict[int, Occurrence | None]:
    """Find a cast before and a cast after one operator; a map as of `_moved`."""
    index = graph.obtained if is_added else graph.expected
    casts = []
    for region in regions:
        own = region.obtained or region.expected
        calls = _without_read_dtypes(index, without_tensors(index, own))
        if _kind_of(index, calls, "inserted") == "cast":
            casts.append((region, own, operator_name(index, calls[-1])))
    before = {reader: cast for cast in casts for n in cast[1] for reader, _ in index.users[n] if reader not in cast[1]}
    found: dict[int, Occurrence | None] = {}
    for late, own, name in casts:
        read = {n for position in own for n in index.inputs[position]} - {*own}
        for between in read & before.keys():
            early, _, early_name = before[between]
            if early is late or id(early) in found or id(late) in found:
                continue
            both = early.joined(late)
            computed = "is computed" if is_added else "is no longer computed"
            text = f"{described_node(index, between, both.where)} {computed} between two casts ({early_name}, {name})"
            found |= {id(early): _site(graph, both, "cast", text, [text]), id(late): None}
    return found


def _moved_calls(graph: ComparedGraph, regions: Sequence[Region]) -> Iterator[Occurrence]:
    """Find modules that are called once in both graphs, at places beside other edits."""
    gone = _lone_calls(graph.expected, [n for region in regions for n in region.expected if n in graph.removed])
    come = _lone_calls(graph.obtained, [n for region in regions for n in region.obtained if n in graph.added])
    for path in filter(come.__contains__, gone):
        position, partner, around = gone[path], come[path], path.rpartition(".")[0]
        places = [
            described_node(index, min(reader for reader, _ in index.users[call]), around)
            for index, call in ((graph.expected, position), (graph.obtained, partner))
            if index.users[call]
        ]
        if len({*places}) < 2:
            continue
        text = f"{path.rpartition('.')[2]} moved from before {places[0]} to before {places[1]}"
        both = Region([position], [partner], around, [graph.removed[position], graph.added[partner]])
        yield _site(graph, both, "moved", text, [text])


def _lone_calls(index: GraphIndex, positions: Iterable[int]) -> dict[str, int]:
    """Map modules that are called once to the call, if it is among the positions."""
    calls = {index.nodes[n].target: n for n in positions if index.nodes[n].op == "call_module"}
    return {path: n for path, n in calls.items() if len(index.callers(path)) == 1}


def _moved(graph: ComparedGraph, gone: Sequence[Region], come: Sequence[Region]) -> dict[int, Occurrence | None]:
    """Map the regions of a move, by identity, to the move; the second region of a move to None."""
    waiting = grouped(gone, lambda region: _content(graph.expected, region.expected, region.where))
    moved: dict[int, Occurrence | None] = {}
    for region in come:
        alike = waiting.get(_content(graph.obtained, region.obtained, region.where))
        if not alike:
            continue
        removed = alike.pop(0)
        found = _move(graph, removed, region)
        if found is not None:
            moved |= {id(removed): found, id(region): None}
    return moved


def _exchanged(graph: ComparedGraph, regions: Sequence[Region]) -> dict[int, Occurrence | None]:
    """Find neighbours that took each other's place, each of which looks replaced by the other."""
    by_position = {
        region.expected[0]: region for region in regions if len(region.expected) == len(region.obtained) == 1
    }
    moved: dict[int, Occurrence | None] = {}
    for position, region in by_position.items():
        for before in graph.expected.inputs[position]:
            other = by_position.get(before)
            if other is None or id(other) in moved or id(region) in moved:
                continue
            names = [
                (spelled_operator(graph.expected, each.expected[0]), spelled_operator(graph.obtained, each.obtained[0]))
                for each in (other, region)
            ]
            if names[0] != names[1][::-1] or names[0][0] == names[0][1]:
                continue
            both = other.joined(region)
            late, early = (described_node(graph.expected, each.expected[0], both.where) for each in (region, other))
            text = f"{late} moved from after to before {early}"
            moved |= {id(other): _site(graph, both, "moved", text, [text]), id(region): None}
    return moved


def _content(index: GraphIndex, positions: Sequence[int], where: str) -> Hashable:
    return (where, *(index.labels[n] for n in positions))


def _move(graph: ComparedGraph, removed: Region, added: Region) -> Occurrence | None:
    before, after = _edge(graph, removed), _edge(graph, added)
    if before is None or after is None:
        return None
    name = described_node(graph.obtained, added.obtained[0], added.where)
    if len(added.obtained) > 1:
        name = listed_operators(graph.obtained, added.obtained)
    partners = graph.alignment.obtained_of
    if partners[before.value] == after.reader:
        text = f"{name} moved from after to before {described_node(graph.obtained, after.reader, added.where)}"
    elif partners[before.reader] == after.value:
        text = f"{name} moved from before to after {described_node(graph.obtained, after.value, added.where)}"
    else:
        source = described_node(graph.expected, before.value, added.where)
        target = described_node(graph.obtained, after.value, added.where)
        if graph.obtained.nodes[after.value].op == "placeholder" or target == source:
            target = f"before {described_node(graph.obtained, after.reader, added.where)}"
        else:
            target = f"after {target}"
        text = f"{name} moved from after {source} to {target}"
    return _site(graph, removed.joined(added), "moved", text, [text])
