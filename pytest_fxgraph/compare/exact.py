"""Level `exact`: names, order, every field and the generated code, to the letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_fxgraph.compare.alignment import Alignment
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.expected_terms import in_expected_terms
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.node_changes import MOST_CHANGES, about_node
from pytest_fxgraph.compare.structure import structure_and_alignment
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord


def exact_difference(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare two documents to the letter; what tells the reader where a node comes from is not compared."""
    if _compared(expected) == _compared(obtained):
        return Difference("exact")
    renamed = in_expected_terms(expected, obtained)
    structure, alignment = structure_and_alignment(graph_index_of(expected), graph_index_of(renamed))
    alignment.obtained = graph_index_of(obtained)
    letters = [
        *_node_letters(alignment, renamed.nodes),
        *_record_letters("module", expected.modules, obtained.modules),
        *_record_letters("state", expected.state, obtained.state),
        *_inner_letters(expected, obtained),
        *_code_changes(expected.code, obtained.code),
    ]
    # What level `structure` lists inside a nested graph is found there a second time.
    letters = [change for change in dict.fromkeys(letters) if change not in structure.changes]
    changes = [*structure.changes, *letters[:MOST_CHANGES]]
    omitted = structure.omitted + len(letters[MOST_CHANGES:])
    if not changes:
        changes = [Change("cosmetic", "changed", "code", "the document", "text")]
    return replace(structure, level="exact", changes=tuple(changes), omitted=omitted, truncated=omitted > 0)


def _compared(document: GraphDocument) -> GraphDocument:
    """Give the document without what is never compared."""
    nodes = tuple(replace(node, scope=None, source=None, name_from=None) for node in document.nodes)
    modules = tuple(
        replace(module, graph=module.graph and _compared(module.graph), name_from=None) for module in document.modules
    )
    state = tuple(replace(record, name_from=None) for record in document.state)
    return replace(document, nodes=nodes, modules=modules, state=state, symbols=())


def _node_letters(alignment: Alignment, renamed: Sequence[NodeRecord]) -> list[Change]:
    """List paired nodes that level `structure` takes for equal and that are not written alike.

    `renamed` are the obtained nodes as that level reads them.
    """
    names = {
        alignment.expected.nodes[position].name: alignment.obtained.nodes[partner].name
        for position, partner in alignment.pairs()
    }
    changes: list[Change] = []
    latest = -1
    for position, partner in alignment.pairs():
        node, obtained = alignment.expected.nodes[position], alignment.obtained.nodes[partner]
        about = replace(about_node(obtained, node), kind="cosmetic")
        if node.name != obtained.name:
            changes.append(replace(about, field="name", expected=node.name, obtained=obtained.name))
        changes.extend(_made_letters(about, node, obtained, renamed[partner]))
        changes.extend(_other_letters(about, node, obtained, names))
        if partner < latest:
            changes.append(
                replace(about, kind="order", action="moved", field="order", expected="later", obtained="earlier")
            )
        latest = max(latest, partner)
    return changes


def _made_letters(about: Change, node: NodeRecord, obtained: NodeRecord, renamed: NodeRecord) -> list[Change]:
    """List what a tracer or a capture named otherwise."""
    changes = []
    if node.target != obtained.target and node.target == renamed.target:
        changes.append(replace(about, field="target", expected=node.target, obtained=obtained.target))
    if node.value and obtained.value and node.value != obtained.value and node.value == renamed.value:
        changes.append(replace(about, field="value", expected=node.value, obtained=obtained.value))
    return changes


def _other_letters(about: Change, node: NodeRecord, obtained: NodeRecord, names: dict[str, str]) -> list[Change]:
    changes = []
    effects = [rename_references(effect, names) for effect in node.effects]
    if sorted(effects) != sorted(obtained.effects):
        texts = ", ".join(effects) or "none", ", ".join(obtained.effects) or "none"
        changes.append(replace(about, kind="order", field="effects", expected=texts[0], obtained=texts[1]))
    if node.value != obtained.value and (node.value is None or obtained.value is None):
        texts = node.value or "not recorded", obtained.value or "not recorded"
        changes.append(replace(about, kind="signature", field="value", expected=texts[0], obtained=texts[1]))
    keywords = [[keyword for keyword, _ in record.kwargs] for record in (node, obtained)]
    if keywords[0] != keywords[1] and sorted(keywords[0]) == sorted(keywords[1]):
        texts = ", ".join(keywords[0]), ", ".join(keywords[1])
        changes.append(replace(about, field="order of keywords", expected=texts[0], obtained=texts[1]))
    return changes


def _record_letters(
    subject: str,
    expected: Sequence[ModuleRecord] | Sequence[StateRecord],
    obtained: Sequence[ModuleRecord] | Sequence[StateRecord],
) -> list[Change]:
    """Name the first of equally many records that stands at another place."""
    paths, obtained_paths = [record.path for record in expected], [record.path for record in obtained]
    if sorted(paths) != sorted(obtained_paths):
        return []
    for path, obtained_path in zip(paths, obtained_paths, strict=True):
        if path != obtained_path:
            return [Change("order", "moved", subject, obtained_path, "order", path, obtained_path)]
    return []


def _inner_letters(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """Compare modules that are graphs on both sides to the letter."""
    graphs = {module.path: module.graph for module in obtained.modules if module.graph is not None}
    return [
        replace(change, where=f"{module.path}/{change.where}")
        for module in expected.modules
        if module.graph is not None and module.path in graphs
        for change in exact_difference(module.graph, graphs[module.path]).changes
    ]


def _code_changes(expected: str, obtained: str) -> list[Change]:
    """Name the first line of the generated code that differs."""
    if expected == obtained:
        return []
    lines, obtained_lines = expected.split("\n"), obtained.split("\n")
    place = next((n for n, pair in enumerate(zip(lines, obtained_lines, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        place = min(len(lines), len(obtained_lines))
    texts = [text[place].strip() if place < len(text) else "" for text in (lines, obtained_lines)]
    return [Change("cosmetic", "changed", "code", f"line {place + 1}", "", texts[0], texts[1])]
