"""The levels, each with its comparison of two documents; `compare_documents` compares at one of them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pytest_fxgraph.budget import Allowances
from pytest_fxgraph.choices import LEVELS, Level
from pytest_fxgraph.compare.changed_records import ChangedRecords, FieldChanges, TextRecord, changed_fields
from pytest_fxgraph.compare.commutativity import with_operands_in_order
from pytest_fxgraph.compare.compared_parts import both_as_compared
from pytest_fxgraph.compare.cost import cost_difference
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.compare.expected_terms import close_contents, in_expected_terms
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import Alignment, values_agree
from pytest_fxgraph.compare.kernel_changes import kernel_difference
from pytest_fxgraph.compare.node_changes import MOST_CHANGES, about_node
from pytest_fxgraph.compare.normalization import normalized_spelling
from pytest_fxgraph.compare.record_changes import add_capture_notes, note_changes
from pytest_fxgraph.compare.sequence_alignment import common_prefix
from pytest_fxgraph.compare.structure import structure_and_alignment
from pytest_fxgraph.document.capture_notes import (
    is_of_capture,
    refuse_without_breaks,
    refuse_without_kernels,
    without_kernels,
)
from pytest_fxgraph.document.literals import references, rename_references, without_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord, with_inner_graphs
from pytest_fxgraph.errors import LevelError


def compare_documents(
    expected: GraphDocument,
    obtained: GraphDocument,
    *,
    level: str = "structure",
    commutative: bool = False,
    normalize: bool = False,
    constants: str = "exact",
    budget: Allowances | None = None,
) -> Difference:
    """Compare an obtained document with an expected one at a level.

    `commutative` frees the order of operands of commutative operators, `normalize` frees the spelling of operators.
    Both loosen `structure` and `ops`, and have no effect at other levels. With `constants` "close" or "shape", floats
    that differ by rounding are equal in constant tensors, and in arguments and configurations except at `exact`.
    Generated names count at `exact` alone. `budget` is for level `cost`; without a budget, costs have to be equal.
    Raises LevelError for an unknown level.
    """
    compare = comparison_at(level)
    is_close = constants != "exact"
    if level == "cost":
        return cost_difference(expected, obtained, budget)
    if level == "kernels":
        return compare(expected, obtained)
    with _gc_paused():
        if level == "exact":
            return compare(expected, _with_close_contents(expected, obtained, is_close))
        expected, obtained = both_as_compared(expected, obtained)
        is_loose = level in ("structure", "ops")
        if normalize and is_loose:
            expected, obtained = normalized_spelling(expected), normalized_spelling(obtained)
        prepare = with_operands_in_order if commutative and is_loose else None
        obtained = in_expected_terms(expected, obtained, is_close=is_close, prepare=prepare)
        if prepare is not None:
            expected, obtained = prepare(expected, obtained)
        difference = compare(expected, obtained)
        is_respelled = prepare is not None or (normalize and is_loose)
        return replace(difference, alignment=None) if is_respelled else difference


def _with_close_contents(expected: GraphDocument, obtained: GraphDocument, is_close: bool) -> GraphDocument:
    """Return the obtained document, and the graphs inside it, with the golden's contents where these are close."""
    graphs = {module.path: module.graph for module in expected.modules}
    modules = [
        module._replace(graph=_with_close_contents(graph, module.graph, is_close))
        if module.graph is not None and (graph := graphs.get(module.path)) is not None
        else module
        for module in obtained.modules
    ]
    state = close_contents(obtained.state, expected.state, is_close=is_close)
    return replace(obtained, modules=tuple(modules), state=state)


def comparison_at(level: str) -> Callable[[GraphDocument, GraphDocument], Difference]:
    """Return the comparison of a level. Raises LevelError, with the list of levels, for an unknown level."""
    if level not in LEVELS:
        raise LevelError(
            f"cannot compare at level {level!r}: there is no such level in this release; use one of {', '.join(LEVELS)}"
        )
    return _COMPARISONS[level]


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause the garbage collector: it scans tens of thousands of fresh tuples, and comparing takes twice as long.

    fxcore has the same function, but documents are compared without torch, and fxcore imports torch.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _structure(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare two documents up to names, and up to an order that keeps dependencies and effects."""
    difference, _ = structure_and_alignment(graph_index_of(expected), graph_index_of(obtained))
    return difference


# Level `exact`: names, order, every field and the generated code, to the letter.


def _exact(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare two documents to the letter, except for facts that only tell a reader where a node comes from."""
    if _compared(expected) == _compared(obtained):
        return Difference("exact")
    renamed = in_expected_terms(expected, obtained)
    structure, alignment = structure_and_alignment(graph_index_of(expected), graph_index_of(renamed))
    # The report shows the traced names; those of inner graphs are in no alignment.
    alignment.obtained, alignment.inner = graph_index_of(obtained), {}
    letters = [
        *_node_letters(alignment, renamed.nodes),
        *_record_letters("module", expected.modules, obtained.modules),
        *_record_letters("state", expected.state, obtained.state),
        *_inner_letters(expected, obtained),
        *_code_changes(expected.code, obtained.code),
    ]
    # Level `structure` has listed the changes of inner graphs already.
    letters = [change for change in dict.fromkeys(letters) if change not in structure.changes]
    changes = [*structure.changes, *letters[:MOST_CHANGES]]
    omitted = structure.omitted + len(letters[MOST_CHANGES:])
    if not changes:
        changes = [Change("cosmetic", "changed", "code", "the document", "text")]
    return replace(structure, level="exact", changes=tuple(changes), omitted=omitted, truncated=omitted > 0)


def _compared(document: GraphDocument) -> GraphDocument:
    """Return the document without the fields that no level compares."""
    document = without_kernels(document)
    nodes = tuple(node._replace(scope=None, source=None, name_from=None) for node in document.nodes)
    modules = tuple(module._replace(name_from=None) for module in document.modules)
    state = tuple(record._replace(name_from=None) for record in document.state)
    return with_inner_graphs(replace(document, nodes=nodes, modules=modules, state=state, symbols=()), _compared)


def _node_letters(alignment: Alignment, renamed: Sequence[NodeRecord]) -> Iterator[Change]:
    """Yield paired nodes that are equal at level `structure` and not written alike.

    `renamed` are the obtained nodes in the expected document's terms.
    """
    sides = alignment.expected.nodes, alignment.obtained.nodes
    names = {sides[0][position].name: sides[1][partner].name for position, partner in alignment.pairs()}
    latest = 0
    for position, partner in alignment.pairs():
        node, obtained = sides[0][position], sides[1][partner]
        about = replace(about_node(obtained, node), kind="cosmetic")
        for kind, field, *texts in _letters(node, obtained, renamed[partner], names):
            yield replace(about, kind=kind, field=field, expected=texts[0], obtained=texts[1])
        if partner < latest:
            yield replace(about, kind="order", action="moved", field="order", expected="later", obtained="earlier")
        latest = max(latest, partner)


def _letters(
    node: NodeRecord, obtained: NodeRecord, renamed: NodeRecord, names: Mapping[str, str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the kind, the field and both texts of every field of a pair that is not written alike."""
    if node.name != obtained.name:
        yield "cosmetic", "name", node.name, obtained.name
    # A target or value that a tracer or a capture named otherwise.
    if node.target != obtained.target and node.target == renamed.target:
        yield "cosmetic", "target", node.target, obtained.target
    if node.value and obtained.value and node.value != obtained.value and node.value == renamed.value:
        yield "cosmetic", "value", node.value, obtained.value
    effects = [rename_references(effect, names) for effect in node.effects]
    if sorted(effects) != sorted(obtained.effects):
        yield "order", "effects", ", ".join(effects) or "none", ", ".join(obtained.effects) or "none"
    if node.value != obtained.value and (node.value is None or obtained.value is None):
        yield "signature", "value", node.value or "not recorded", obtained.value or "not recorded"
    keywords, obtained_keywords = ([keyword for keyword, _ in record.kwargs] for record in (node, obtained))
    if keywords != obtained_keywords and sorted(keywords) == sorted(obtained_keywords):
        yield "cosmetic", "order of keywords", ", ".join(keywords), ", ".join(obtained_keywords)


def _record_letters(
    subject: str,
    expected: Sequence[ModuleRecord] | Sequence[StateRecord],
    obtained: Sequence[ModuleRecord] | Sequence[StateRecord],
) -> list[Change]:
    """Name the first of equally many records that stands at another place."""
    paths, obtained_paths = [record.path for record in expected], [record.path for record in obtained]
    if sorted(paths) != sorted(obtained_paths):
        return []
    moved = [pair for pair in zip(paths, obtained_paths, strict=True) if pair[0] != pair[1]]
    return [Change("order", "moved", subject, other, "order", path, other) for path, other in moved[:1]]


def _inner_letters(expected: GraphDocument, obtained: GraphDocument) -> list[Change]:
    """Compare modules that are graphs on both sides to the letter."""
    graphs = {module.path: module.graph for module in obtained.modules if module.graph is not None}
    return [
        replace(change, where=f"{module.path}/{change.where}")
        for module in expected.modules
        if module.graph is not None and module.path in graphs
        for change in _exact(module.graph, graphs[module.path]).changes
    ]


def _code_changes(expected: str, obtained: str) -> list[Change]:
    """Name the first line of the generated code that differs."""
    if expected == obtained:
        return []
    lines, obtained_lines = expected.split("\n"), obtained.split("\n")
    place = common_prefix(lines, obtained_lines)
    texts = [text[place].strip() if place < len(text) else "" for text in (lines, obtained_lines)]
    return [Change("cosmetic", "changed", "code", f"line {place + 1}", "", texts[0], texts[1])]


# Level `ops`: the number of calls of each operator.


def _ops(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare the number of nodes by operator."""
    counts, obtained_counts = operator_counts(expected), operator_counts(obtained)
    changes = []
    for op, operator in sorted(counts.keys() | obtained_counts.keys()):
        before, after = counts[op, operator], obtained_counts[op, operator]
        if before != after:
            name = f"{operator} (method)" if op == "call_method" else operator
            about = Change("operators", "changed", "count", name, "count", str(before), str(after), operator=operator)
            changes.append(about)
    return Difference("ops", tuple(changes))


def operator_counts(document: GraphDocument) -> Counter[tuple[str, str]]:
    """Count operators by kind of call and name; modules count by class, inner graphs by their nodes."""
    modules = {module.path: module.kind for module in document.modules}
    counts = Counter(
        (node.op, modules.get(node.target, node.target) if node.op == "call_module" else node.target)
        for node in document.nodes
        if node.op in ("call_function", "call_method", "call_module")
    )
    for module in document.modules:
        if module.graph is not None:
            counts += operator_counts(module.graph)
    return counts


# Level `signature`: inputs, outputs, and the names, shapes and dtypes of the state.

_NOTES = ("inputs: ", "input structure: ", "output structure: ")
# The beginning of a change in each section of the records.
_ABOUT = {
    "inputs": Change("signature", "changed", "input", ""),
    "outputs": Change("signature", "changed", "output", ""),
    "state": Change("state", "changed", "state", ""),
}
# Fields other than the value, and values that may be unknown, by key.
_Described = Mapping[str, tuple[TextRecord, Sequence[str | None]]]


def _signature(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare inputs in order, the structure and values of outputs, and the state by path."""
    records = ChangedRecords()
    sections, obtained_sections = _sections(expected), _sections(obtained)
    for section in _ABOUT:
        _add(records, section, sections[section], obtained_sections[section])
    notes, obtained_notes = ([note for note in side.notes if note.startswith(_NOTES)] for side in (expected, obtained))
    records.add_notes(notes, obtained_notes)
    fields = changed_fields(records)
    changes = _order_changes([*sections["inputs"]], [*obtained_sections["inputs"]])
    for section in _ABOUT:
        changes += _section_changes(records, section, fields)
    changes += note_changes(records, fields)
    return Difference("signature", tuple(changes), records=(records.expected, records.obtained))


def _sections(document: GraphDocument) -> dict[str, _Described]:
    """Describe inputs, outputs and state. A capture has those of all its graphs; a key begins with the graph's name."""
    if not is_of_capture(document):
        return _sections_of_graph(document)
    sections: dict[str, dict[str, tuple[TextRecord, Sequence[str | None]]]] = {section: {} for section in _ABOUT}
    for module in document.modules:
        for section, described in _sections_of_graph(module.graph).items() if module.graph is not None else ():
            sections[section].update({f"{module.path}/{key}": each for key, each in described.items()})
    return {**sections}


def _sections_of_graph(document: GraphDocument) -> dict[str, _Described]:
    inputs = [node for node in document.nodes if node.op == "placeholder"]
    outputs = [node for node in document.nodes if node.op == "output"]
    values = {node.name: node.value for node in document.nodes}
    read = [[name for text in node.args for name in references(text)] for node in outputs]
    return {
        "inputs": {node.target: ({"default": ", ".join(node.args)}, [node.value]) for node in inputs},
        "outputs": {
            f"output_{n}" if n else "output": (
                {"args": [*map(without_references, node.args)]},
                [node.value, *map(values.get, names)],
            )
            for n, (node, names) in enumerate(zip(outputs, read, strict=True))
        },
        "state": {record.path: ({}, [record.value]) for record in document.state},
    }


def _add(records: ChangedRecords, section: str, expected: _Described, obtained: _Described) -> None:
    """Add the differing records, with values as one text; a value that only one side knows is no difference."""
    for key in dict.fromkeys([*expected, *obtained]):
        if key not in expected or key not in obtained:
            described = [side.get(key) for side in (expected, obtained)]
            records.add(section, key, *[each and {**each[0], "value": _values_text(each[1])} for each in described])
            continue
        (fields, values), (obtained_fields, obtained_values) = expected[key], obtained[key]
        # Values of outputs are comparable only if the outputs have one structure.
        is_comparable = section != "outputs" or fields == obtained_fields
        if is_comparable and not all(map(values_agree, values, obtained_values)):
            fields = {**fields, "value": _values_text(values)}
            obtained_fields = {**obtained_fields, "value": _values_text(obtained_values)}
        if fields != obtained_fields:
            records.add(section, key, fields, obtained_fields)


def _values_text(values: Sequence[str | None]) -> str:
    """Write the values that a node reads, or its own value if it reads no node."""
    return ", ".join(value or "?" for value in values[1:]) or values[0] or ""


def _order_changes(names: list[str], obtained_names: list[str]) -> list[Change]:
    if names == obtained_names or sorted(names) != sorted(obtained_names):
        return []
    about = replace(_ABOUT["inputs"], action="moved", where=obtained_names[0], field="order")
    return [replace(about, expected=", ".join(names), obtained=", ".join(obtained_names))]


def _section_changes(records: ChangedRecords, section: str, fields: FieldChanges) -> Iterator[Change]:
    """Put a section in words: added or removed state with its value, added or removed inputs with their name."""
    for key, (before, after) in records.of_section(section).items():
        about = replace(_ABOUT[section], where=key)
        if after is None:
            yield replace(about, action="removed", expected=before["value"] if before and section == "state" else key)
        elif before is None:
            yield replace(about, action="added", obtained=after["value"] if section == "state" else key)
        for found in records.fields_of(section, key, fields):
            yield replace(about, field=found.field, expected=found.expected, obtained=found.obtained)


# Level `breaks`: the breaks and recompiles of a capture.


def _breaks(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare the breaks and recompiles of two captures; graphs and guards do not count.

    Raises LevelError for a graph that Dynamo did not capture, because it cannot have a break.
    """
    refuse_without_breaks(obtained)
    records = ChangedRecords()
    changes = [
        change
        for change in add_capture_notes(expected, obtained, records)
        if change.subject in ("break", "recompile", "skipped", "fallback")
    ]
    return Difference("breaks", tuple(changes), records=(records.expected, records.obtained) if changes else ({}, {}))


def _kernels(expected: GraphDocument, obtained: GraphDocument) -> Difference:
    """Compare the kernels of two captures; graphs do not count.

    Raises LevelError for a graph that Inductor did not compile, and CaptureError if there are no kernels.
    """
    refuse_without_kernels(obtained)
    return kernel_difference(expected, obtained)


_COMPARISONS: dict[Level, Callable[[GraphDocument, GraphDocument], Difference]] = {
    "exact": _exact,
    "structure": _structure,
    "ops": _ops,
    "signature": _signature,
    "cost": cost_difference,
    "breaks": _breaks,
    "kernels": _kernels,
}
