"""Operators that were replaced, inserted, removed or moved, and calls that are spelled otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import (
    described_node,
    described_state,
    listed_operators,
    operator_name,
    spelled_operator,
)
from pytest_fxgraph.compare.edits.regions import Region, regions_of
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.compare.normalization import are_spelled_alike

# What the operators of an inserted pair do to a value, with the operand in place of the braces.
_WITH_OPERAND = {
    "mul": ("{value} is multiplied by {operand}", "{value} is no longer multiplied by {operand}"),
    "add": ("{operand} is added to {value}", "{operand} is no longer added to {value}"),
    "sub": ("{operand} is subtracted from {value}", "{operand} is no longer subtracted from {value}"),
    "div": ("{value} is divided by {operand}", "{value} is no longer divided by {operand}"),
}
_SAME_OPERATORS = {"truediv": "div", "mul_": "mul", "add_": "add", "sub_": "sub", "div_": "div", "multiply": "mul"}
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
_QUANTIZING = ("quantize", "fake_quant", "dequant")


class _Edge(NamedTuple):
    """The edge that a region was put on or taken from."""

    value: int  # node before the region
    reader: int  # node behind the region


def replaced_operators(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find operators that were replaced, inserted, removed or moved."""
    regions = regions_of(graph)
    gone = [region for region in regions if not region.obtained]
    come = [region for region in regions if not region.expected]
    moved = _moved(graph, gone, come)
    for region in regions:
        if id(region) in moved:
            occurrence = moved[id(region)]
            if occurrence is not None:
                yield occurrence
        elif region.expected and region.obtained:
            yield _replaced(graph, region)
        else:
            yield _one_sided(graph, region)


def _site(graph: ComparedGraph, region: Region, kind: str, text: str, key: Sequence[str]) -> Occurrence:
    site = graph.site(region.where, region.expected, region.obtained)
    return Occurrence(kind, text, (kind, *key), site, region.changes)


def _replaced(graph: ComparedGraph, region: Region) -> Occurrence:
    sides = (graph.expected, region.expected), (graph.obtained, region.obtained)
    spelled = [[spelled_operator(index, n) for n in positions] for index, positions in sides]
    kind = _kind_of(graph.obtained, region.obtained, "replaced")
    if len(region.expected) == len(region.obtained) == 1:
        text = f"{spelled[0][0]} -> {spelled[1][0]}"
        if _is_spelling(graph, region):
            kind, text = "spelling", f"{text} (normalize=True makes them equal)"
        elif spelled[0] == spelled[1]:
            text = "; ".join(dict.fromkeys(f"{spelled[0][0]}: {_field_text(change)}" for change in region.changes))
    else:
        text = " -> ".join(listed_operators(index, positions) for index, positions in sides)
    return _site(graph, region, kind, text, (" ".join(spelled[0]), " ".join(spelled[1])))


def _field_text(change: Change) -> str:
    return f"{change.field} {change.expected or 'nothing'} -> {change.obtained or 'nothing'}"


def _is_spelling(graph: ComparedGraph, region: Region) -> bool:
    position, partner = region.expected[0], region.obtained[0]
    inputs = [graph.alignment.obtained_of[read] for read in graph.expected.inputs[position]]
    if inputs != [*graph.obtained.inputs[partner]]:
        return False
    nodes = graph.expected.nodes[position], graph.obtained.nodes[partner]
    return are_spelled_alike(*nodes, graph.expected.modules, graph.obtained.modules)


def _kind_of(index: GraphIndex, positions: Sequence[int], kind: str) -> str:
    """Name the kind of an edit after the operators: a cast, a copy, a transpose, a quantisation."""
    names = {operator_name(index, n) for n in positions}
    if any(index.operator(n).startswith("torch.ao.nn.") for n in positions):
        return "quantized"
    if any(name.lower().startswith(_QUANTIZING) for name in names):
        return "quantized"
    if kind == "inserted" or kind == "removed":
        return next((each for each, members in _KINDS.items() if names and names <= {*members}), kind)
    return kind


# Regions of one graph alone.


def _one_sided(graph: ComparedGraph, region: Region) -> Occurrence:
    is_added = bool(region.obtained)
    index, positions = (graph.obtained, region.obtained) if is_added else (graph.expected, region.expected)
    kind = "inserted" if is_added else "removed"
    edge = _edge(graph, region)
    calls = [n for n in positions if index.nodes[n].op != "get_attr"]
    tensors = [n for n in positions if index.nodes[n].op == "get_attr"]
    operators = [spelled_operator(index, n) for n in calls]
    if not calls:
        text = f"{' and '.join(_tensor(index, n) for n in tensors)} {kind}"
        return _site(graph, region, kind, text, [_role(index, n) for n in tensors])
    value = _before(graph, region) if edge is None else edge.value
    name = "" if value is None else described_node(index, value, region.where)
    text = _operand_text(index, calls, tensors, name, is_added) if edge is not None else ""
    if not text:
        words = {(True, True): "inserted", (True, False): "added"}.get((is_added, edge is not None), "removed")
        operands = f" with {' and '.join(_tensor(index, n, is_added) for n in tensors)}" if tensors else ""
        named = spelled_operator(index, calls[0]) if len(calls) == 1 else listed_operators(index, calls)
        text = f"{named}{operands} {words}{f' after {name}' if name else ''}"
    kind = _kind_of(index, calls, kind)
    return _site(graph, region, kind, text, (" ".join(operators), name, *(_role(index, n) for n in tensors)))


def _operand_text(index: GraphIndex, calls: Sequence[int], tensors: Sequence[int], name: str, is_added: bool) -> str:
    """Tell one arithmetic operator with a parameter or a number; "" for any other region."""
    operator = operator_name(index, calls[0])
    words = _WITH_OPERAND.get(_SAME_OPERATORS.get(operator, operator))
    node = index.nodes[calls[0]]
    numbers = [text for text in node.args if "%" not in text]
    if words is None or len(calls) > 1 or not name or node.kwargs or len(tensors) + len(numbers) != 1:
        return ""
    operand = _tensor(index, tensors[0], is_added) if tensors else numbers[0]
    value = name if name.startswith("input ") else f"{name}'s output"
    return words[0 if is_added else 1].format(value=value, operand=operand)


def _tensor(index: GraphIndex, position: int, is_new: bool = False) -> str:
    path = index.nodes[position].target
    record = next((each for each in index.document.state if each.path == path), None)
    if record is None:
        return described_state(path, "")
    noun = f"a new {record.kind}" if is_new else f"the {record.kind}"
    return f"{noun} {described_state(path, record.value)}"


def _role(index: GraphIndex, position: int) -> str:
    path = index.nodes[position].target
    record = next((each for each in index.document.state if each.path == path), None)
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


def _moved(graph: ComparedGraph, gone: Sequence[Region], come: Sequence[Region]) -> dict[int, Occurrence | None]:
    """Map the regions of a move, by identity, to the move; the second region of a move to None."""
    waiting: dict[object, list[Region]] = {}
    for region in gone:
        waiting.setdefault(_content(graph.expected, region.expected, region.where), []).append(region)
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


def _content(index: GraphIndex, positions: Sequence[int], where: str) -> object:
    return (where, *(index.labels[n] for n in positions))


def _move(graph: ComparedGraph, removed: Region, added: Region) -> Occurrence | None:
    before, after = _edge(graph, removed), _edge(graph, added)
    if before is None or after is None:
        return None
    both = Region(removed.expected, added.obtained, added.where, removed.changes + added.changes)
    name = described_node(graph.obtained, added.obtained[0], added.where)
    if len(added.obtained) > 1:
        name = listed_operators(graph.obtained, added.obtained)
    partners = graph.alignment.obtained_of
    if partners[before.value] == after.reader:
        text = f"{name} moved from after to before {described_node(graph.obtained, after.reader, added.where)}"
    elif partners[before.reader] == after.value:
        text = f"{name} moved from before to after {described_node(graph.obtained, after.value, added.where)}"
    else:
        places = (
            described_node(graph.expected, before.value, added.where),
            described_node(graph.obtained, after.value, added.where),
        )
        text = f"{name} moved from after {places[0]} to after {places[1]}"
    return _site(graph, both, "moved", text, [text])
