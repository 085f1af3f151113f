"""Arguments of calls and configurations of modules that differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import described_node, spelled_class, spelled_operator, without_numbers
from pytest_fxgraph.compare.graph_index import GraphIndex
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.operator_table import facts_of_call

_KEYWORD = re.compile(r"kwargs\['(\w+)'\]")
_POSITION = re.compile(r"args\[(\d+)\]")
_AFTER = re.compile(r"\Aafter (\w+)\Z")
# Kinds of edits by the classes of changes.
_KINDS = {
    "operators": "replaced",
    "arguments": "argument",
    "wiring": "rewired",
    "signature": "value",
    "order": "order",
    "cosmetic": "cosmetic",
}
_REFERENCE = re.compile(r"%\w+")
_MARK = "\0"  # behind the sign of a reference, so that a sign in a quoted text stays
REMOVED = " (removed)"  # stands behind the names of removed nodes in changes


def changed_arguments(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find calls with other arguments or operands, and modules of another class or configuration."""
    yield from _changed_modules(graph)
    told: dict[object, list[Occurrence]] = {}  # of calls that differ in texts without names of nodes
    for position, partner, changes in graph.pair_changes():
        own = [change for change in changes if change.subject == "node"]
        found = []
        for kind in _KINDS:
            of_kind = [change for change in own if change.kind == kind]
            if of_kind:
                found.append(_of_call(graph, position, partner, of_kind, kind))
        if all(change.kind == "arguments" and "%" not in change.expected + change.obtained for change in changes):
            told.setdefault(_labels(graph, position, partner), found)
        yield from found
    for position, partner in graph.omitted if told else ():
        if position >= 0 and partner >= 0 and graph.reads_the_same(position, partner):
            for occurrence in told.get(_labels(graph, position, partner), ()):
                scope = graph.obtained.nodes[partner].scope or graph.expected.nodes[position].scope or ""
                yield occurrence._replace(site=graph.site(scope, [position], [partner]), changes=())


def _labels(graph: ComparedGraph, position: int, partner: int) -> object:
    return graph.expected.labels[position], graph.obtained.labels[partner]


def _changed_modules(graph: ComparedGraph) -> Iterator[Occurrence]:
    for path, changes in graph.modules.items():
        own = [change for change in changes if change.action == "changed" and change.field != "same_as"]
        if not own:
            continue
        module, obtained = graph.expected.modules[path], graph.obtained.modules[path]
        classes = spelled_class(module.kind), spelled_class(obtained.kind)
        if module.kind != obtained.kind:
            is_quantized = module.kind.startswith("torch.ao.") or obtained.kind.startswith("torch.ao.")
            kind, text = "quantized" if is_quantized else "replaced", " -> ".join(classes)
            key: tuple[str, ...] = classes
        else:
            kind, text = "argument", f"{classes[0]} {_transitions(own)}"
            key = (classes[0], *(without_numbers(change.field) for change in own))
        site = graph.site(path, graph.expected.callers(path), graph.obtained.callers(path))
        yield Occurrence(kind, text, (kind, *key), site, [*own, *graph.of_paths([path])])


def _transitions(changes: Sequence[Change]) -> str:
    return ", ".join(
        f"{change.field.removeprefix('config.')} {change.expected or 'nothing'} -> {change.obtained or 'nothing'}"
        f"{_remark(change)}"
        for change in changes
    )


def _remark(change: Change) -> str:
    return f" ({change.remark})" if change.remark else ""


def _of_call(graph: ComparedGraph, position: int, partner: int, changes: Sequence[Change], kind: str) -> Occurrence:
    scope = graph.obtained.nodes[partner].scope or graph.expected.nodes[position].scope or ""
    operator, told = spelled_operator(graph.obtained, partner), told_arguments(graph, partner, changes, scope)
    site = graph.site(scope, [position], [partner])
    # The numbers of an argument are sizes more often than not.
    key = (_KINDS[kind], operator, without_numbers(told))
    return Occurrence(_KINDS[kind], f"{operator} {told}", key, site, changes)


def told_arguments(graph: ComparedGraph, partner: int, changes: Sequence[Change], scope: str) -> str:
    """Put the changed arguments of a call in words, for a reader at a path."""
    pairs = {(change.expected, change.obtained) for change in changes}
    is_exchange = len(changes) == 2 and {pair[::-1] for pair in pairs} == pairs
    if is_exchange and all(map(all, pairs)):  # an empty text is an argument that is not given
        texts = [with_described_nodes(graph, change.expected, scope) for change in changes]
        return f"operands exchanged: {', '.join(texts)} -> {', '.join(texts[::-1])}"
    return ", ".join(_told(graph, change, partner, scope) for change in changes)


def _told(graph: ComparedGraph, change: Change, partner: int, scope: str) -> str:
    """Put the change of one argument in words, with other nodes named as a reader sees them."""
    pair = [_AFTER.sub(r"after %\1", text) for text in (change.expected, change.obtained)]
    texts = [with_described_nodes(graph, text, scope) or "nothing" for text in pair]
    if texts[0] == texts[1]:
        texts = [text.replace("%", "") for text in pair]
    if all(map(_REFERENCE.fullmatch, (change.expected.replace(REMOVED, ""), change.obtained))):
        return f"reads {texts[1]} in place of {texts[0]}"
    read, now_read = ([*references(text)] for text in pair)
    exchanged = "operands exchanged, " if read != now_read and sorted(read) == sorted(now_read) else ""
    return f"{_field(graph, change, partner)} {exchanged}{texts[0]} -> {texts[1]}{_remark(change)}"


def with_described_nodes(
    graph: ComparedGraph, text: str, scope: str, describe: Callable[[GraphIndex, int, str], str] = described_node
) -> str:
    """Replace the references in a text by names of nodes for a reader at a path."""
    names = {}
    for name in references(text):
        is_removed = f"%{name}{REMOVED}" in text
        index = graph.expected if is_removed else graph.obtained
        position = graph.position(name, is_removed=is_removed)
        if position is None:
            names[name] = _MARK + name
            continue
        node = index.nodes[position]
        names[name] = _MARK + (node.target if node.op == "placeholder" else describe(index, position, scope))
    return rename_references(text.replace(REMOVED, ""), names).replace(f"%{_MARK}", "")


def _field(graph: ComparedGraph, change: Change, partner: int) -> str:
    """Return the name of an argument: the keyword, the parameter's name if it is known, or its place."""
    keyword = _KEYWORD.match(change.field)
    if keyword is not None:
        return keyword[1]
    place = _POSITION.match(change.field)
    if place is None:
        return "moved:" if change.action == "moved" else f"{change.field}:"
    node = graph.obtained.nodes[partner]
    parameters = [*facts_of_call(node.op, node.target).get("parameters", ())]
    number = int(place[1])
    return parameters[number] if number < len(parameters) else f"argument {number + (node.op != 'call_method')}:"
