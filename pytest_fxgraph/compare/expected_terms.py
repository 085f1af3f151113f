"""The obtained document in the golden's terms: its names for generated values, and its numbers if they are close.

A name that a tracer or a capture generated has no meaning, so it is not compared. To find the counterpart of a
generated name, nodes are paired without these names. Inputs pair by place, constants by content, inner graphs by
the node that runs them, symbols by the values that contain them. After that, another name is a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.close_numbers import are_close_contents, close_argument, without_floats
from pytest_fxgraph.compare.graph_index import content_of, graph_index_of
from pytest_fxgraph.compare.sequence_alignment import common_ends
from pytest_fxgraph.compare.symbols import pair_symbols, same_sizes, with_symbols, without_sizes
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import (
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    Pairs,
    StateRecord,
    texts_of,
    with_texts,
)
from pytest_fxgraph.document.symbol_names import WORD, rename_symbols, rename_symbols_of_note

# Brings the operands of both documents into one order before nodes are paired.
Prepare = Callable[[GraphDocument, GraphDocument], tuple[GraphDocument, GraphDocument]]
_HOLDERS = ("get_attr", "call_module")
# The value of a tensor and its number among the tensors with this value, by path.
Numbers = Mapping[str, tuple[str, int]]
_Record = TypeVar("_Record", ModuleRecord, StateRecord)


def in_expected_terms(
    expected: GraphDocument, obtained: GraphDocument, *, is_close: bool = False, prepare: Prepare | None = None
) -> GraphDocument:
    """Return the obtained document with the golden's names for values whose names are generated on both sides.

    With `is_close`, a float close to the golden's becomes the golden's, in arguments, configurations and contents.
    A name that only one document marks as generated counts as chosen.
    """
    if obtained == expected:  # a symbol that no node uses has no counterpart, and would get another name
        return obtained
    return _Terms(expected.symbols, obtained.symbols, {}, is_close, prepare).renamed(expected, obtained)


class _Terms(NamedTuple):
    """The terms of a document and its inner graphs; `symbols` grows from graph to graph."""

    expected_symbols: Collection[str]
    obtained_symbols: Collection[str]
    symbols: dict[str, str]
    is_close: bool
    prepare: Prepare | None

    def renamed(self, expected: GraphDocument, obtained: GraphDocument) -> GraphDocument:
        """Return an obtained graph in the terms of an expected graph."""
        inputs = _input_names(_inputs(expected), _inputs(obtained))
        has_symbols = bool(self.obtained_symbols)
        made, obtained_made = made_paths(expected), made_paths(obtained)
        if not (made and obtained_made):
            made = obtained_made = frozenset()
        has_graphs = any(module.graph is not None for module in expected.modules)
        is_computed = any(record.is_computed for record in obtained.state)
        if not (inputs or has_symbols or made or self.is_close or has_graphs or is_computed):
            return obtained
        by_input = with_targets(obtained, inputs, ("placeholder",))
        numbers, obtained_numbers = _common_numbers(
            numbers_of_unknown(expected, made), numbers_of_unknown(obtained, obtained_made)
        )
        plain = self._plain(expected, made, numbers, self.expected_symbols)
        obtained_plain = self._plain(by_input, obtained_made, obtained_numbers, self.obtained_symbols)
        pairs = self._pairs(plain, obtained_plain)
        counted = {number: path for path, number in numbers.items()}
        paths = {path: counted[number] for path, number in obtained_numbers.items()}
        paths = _path_names(expected, obtained, pairs, made, obtained_made, paths)
        if has_symbols:
            self._pair_symbols(expected, obtained, pairs)
        renamed = with_paths(with_targets(by_input, paths, _HOLDERS), paths)
        renamed = self._with_terms_of_nodes(renamed, expected, pairs)
        return replace(
            renamed,
            nodes=_with_node_names(renamed.nodes, obtained.nodes, expected.nodes, pairs),
            modules=self._modules(renamed.modules, expected),
            state=close_contents(renamed.state, expected.state, is_close=self.is_close),
            notes=tuple(rename_symbols_of_note(note, self.symbols) for note in renamed.notes),
        )

    def _pairs(self, plain: GraphDocument, obtained: GraphDocument) -> list[tuple[int, int]]:
        """Pair nodes of two graphs without generated names."""
        if self.prepare is not None:
            plain, obtained = self.prepare(plain, obtained)
        return align(graph_index_of(plain), graph_index_of(obtained)).pairs()

    def _plain(
        self, document: GraphDocument, made: Collection[str], numbers: Numbers, symbols: Collection[str]
    ) -> GraphDocument:
        """Return a graph with contents or numbers of generated constants in place of their names, without symbols."""
        contents = {record.path: record for record in document.state}
        no_names = dict.fromkeys(symbols, "?")

        def target(node: NodeRecord) -> str:
            if node.op not in _HOLDERS or node.target not in made:
                return node.target
            if node.target in numbers:
                return f"a constant {numbers[node.target]}"
            record = contents.get(node.target)
            if record is None:
                return "a graph"
            return f"a constant {record.value} {self._text(content_of(record, contents))}"

        nodes = [
            with_texts(node, lambda text: self._text(rename_symbols(text, no_names)))._replace(
                target=target(node), value=None if node.value is None else without_sizes(node.value, symbols)
            )
            for node in document.nodes
        ]
        return replace(document, nodes=tuple(nodes))

    def _text(self, text: str | None) -> str:
        return without_floats(text or "") if self.is_close else text or ""

    def _pair_symbols(self, expected: GraphDocument, obtained: GraphDocument, pairs: Sequence[tuple[int, int]]) -> None:
        texts = []
        for position, partner in pairs:
            node, other = expected.nodes[position], obtained.nodes[partner]
            values = zip((node.value, *node.args), (other.value, *other.args), strict=False)
            texts += [(one, two) for one, two in values if one is not None and two is not None]
        found = pair_symbols(texts, self.expected_symbols, self.obtained_symbols, self.symbols)
        self.symbols.update(found)
        unknown = [each for each in self.obtained_symbols if each not in self.symbols and each in self.expected_symbols]
        # A symbol that only an inner graph uses is paired there.
        used = _words_of(obtained) if unknown else ()
        for symbol in unknown:
            if symbol in used:
                self.symbols[symbol] = _free(symbol, {*self.expected_symbols, *self.symbols.values()})

    def _with_terms_of_nodes(
        self, obtained: GraphDocument, expected: GraphDocument, pairs: Sequence[tuple[int, int]]
    ) -> GraphDocument:
        """Rename symbols, and take over the texts of paired nodes with the same meaning."""
        nodes = [with_symbols(node, self.symbols) for node in obtained.nodes] if self.symbols else list(obtained.nodes)
        for position, partner in pairs if self.symbols or self.is_close else ():
            node, other = expected.nodes[position], nodes[partner]
            value = node.value if other.value and node.value and same_sizes(node.value, other.value) else other.value
            args, kwargs = other.args, other.kwargs
            if self.is_close:
                args = self._close_arguments(node.args, args)
                kwargs = _close_pairs(node.kwargs, kwargs)
            if (value, args, kwargs) != (other.value, other.args, other.kwargs):
                nodes[partner] = other._replace(value=value, args=args, kwargs=kwargs)
        return replace(obtained, nodes=tuple(nodes))

    def _close_arguments(self, expected: Sequence[str], obtained: tuple[str, ...]) -> tuple[str, ...]:
        if len(expected) != len(obtained):
            return obtained
        found = tuple(map(close_argument, expected, obtained))
        if found == obtained and self.prepare is not None:
            # Operands may have changed places.
            return tuple(map(close_argument, reversed(expected), obtained))
        return found

    def _modules(self, modules: Sequence[ModuleRecord], expected: GraphDocument) -> tuple[ModuleRecord, ...]:
        records = {record.path: record for record in expected.modules}
        return tuple(self._module(module, records.get(module.path)) for module in modules)

    def _module(self, module: ModuleRecord, expected: ModuleRecord | None) -> ModuleRecord:
        if expected is None:
            return module
        graph = module.graph
        if graph is not None and expected.graph is not None:
            graph = self.renamed(expected.graph, graph)
        config = _close_pairs(expected.config, module.config) if self.is_close else module.config
        return module._replace(graph=graph, config=config)


def _close_pairs(expected: Pairs, obtained: Pairs) -> Pairs:
    known = dict(expected)
    return tuple((key, close_argument(known.get(key, text), text)) for key, text in obtained)


def _words_of(document: GraphDocument) -> set[str]:
    return {word for node in document.nodes for text in texts_of(node) for word in WORD.findall(text)}


def close_contents(
    state: Sequence[StateRecord], expected: Sequence[StateRecord], *, is_close: bool
) -> tuple[StateRecord, ...]:
    """Return obtained state with the golden's contents where these are close; without `is_close`, of computed buffers.

    A computed buffer also gets the golden's content if one of both has none.
    """
    if not is_close and not any(record.is_computed for record in state):
        return tuple(state)
    known = {record.path: record for record in expected}
    return tuple(_close_record(record, known) if is_close or record.is_computed else record for record in state)


def _close_record(record: StateRecord, known: Mapping[str, StateRecord]) -> StateRecord:
    expected = known.get(record.path)
    if expected is None or record.value != expected.value:
        return record
    if record.is_computed and (expected.content is None or record.content is None):
        return record._replace(content=expected.content)
    if record.content is None:
        return record
    content = content_of(expected, known)
    if content is not None and are_close_contents(content, record.content, record.value):
        return record._replace(content=content)
    return record


# Names of inputs.


def _inputs(document: GraphDocument) -> list[NodeRecord]:
    return [node for node in document.nodes if node.op == "placeholder"]


def _input_names(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> dict[str, str]:
    """Map the obtained inputs with generated names to the expected inputs at their places."""
    names: dict[str, str] = {}
    for node, other in _placed(expected, obtained):
        if node.name_from == other.name_from == "position" and _stars(node) == _stars(other):
            names[other.target] = node.target
    names |= _names_by_source(expected, obtained)
    taken = {node.target for node in expected}
    for other in obtained:
        # A new input must not get the name of another input.
        if other.name_from == "position" and other.target not in names and other.target in names.values():
            names[other.target] = _free(other.target, {*taken, *names.values()})
    return {name: other for name, other in names.items() if name != other}


def _stars(node: NodeRecord) -> int:
    return len(node.target) - len(node.target.lstrip("*"))


def _placed(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> list[tuple[NodeRecord, NodeRecord]]:
    """Pair inputs by place. If their number changed, pair from both ends as long as their values agree."""
    if len(expected) == len(obtained):
        return list(zip(expected, obtained, strict=True))
    values, others = ([node.value for node in side] for side in (expected, obtained))
    start, end = common_ends(values, others)
    first = zip(expected[:start], obtained[:start], strict=True)
    return [*first, *zip(expected[::-1][:end], obtained[::-1][:end], strict=True)]


def _names_by_source(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> dict[str, str]:
    """Map inputs in the order of their first use. A name on both sides is the same input."""
    names = [node.target for node in expected if node.name_from == "source"]
    obtained_names = [node.target for node in obtained if node.name_from == "source"]
    if len(names) != len(obtained_names):
        return {}
    left = [name for name in names if name not in obtained_names]
    return dict(zip([name for name in obtained_names if name not in names], left, strict=True))


# Paths of constants and of inner graphs.


def made_paths(document: GraphDocument) -> frozenset[str]:
    """Return the generated paths."""
    records: Iterable[ModuleRecord | StateRecord] = (*document.modules, *document.state)
    return frozenset(record.path for record in records if record.name_from is not None)


def numbers_of_unknown(document: GraphDocument, made: Collection[str]) -> Numbers:
    """Map generated paths of tensors without content to the tensor's value and its number among tensors of this value.

    The order of the numbers in the paths counts, and the numbers themselves do not: 8 and 9 are 0 and 1.
    """
    records = {record.path: record for record in document.state}
    unknown = [path for path in records if path in made and content_of(records[path], records) is None]
    counts: Counter[str] = Counter()
    numbers = {}
    for path in sorted(unknown, key=_prefix_and_number):
        value = records[path].value
        numbers[path] = value, counts[value]
        counts[value] += 1
    return numbers


def _prefix_and_number(path: str) -> tuple[str, int]:
    prefix = path.rstrip("0123456789")
    return prefix, int(path[len(prefix) :] or 0)


def _common_numbers(numbers: Numbers, obtained: Numbers) -> list[Numbers]:
    """Leave out values with another count of tensors on each side: their tensors are paired by their readers."""
    others = {value for value, _ in set(numbers.values()) ^ set(obtained.values())}
    return [{path: number for path, number in side.items() if number[0] not in others} for side in (numbers, obtained)]


def _path_names(
    expected: GraphDocument,
    obtained: GraphDocument,
    pairs: Sequence[tuple[int, int]],
    made: Collection[str],
    obtained_made: Collection[str],
    known: Mapping[str, str],
) -> dict[str, str]:
    """Map generated obtained paths to the paths of the paired nodes; `known` are the counterparts by number."""
    names = dict(known)
    taken = {*names.values()}
    for position, partner in pairs:
        node, other = expected.nodes[position], obtained.nodes[partner]
        is_made = node.op in _HOLDERS and node.target in made and other.target in obtained_made
        if is_made and node.op == other.op and other.target not in names and node.target not in taken:
            names[other.target] = node.target
            taken.add(node.target)
    targets = dict.fromkeys(node.target for node in obtained.nodes)
    for path in targets:
        if path in taken and path in obtained_made and path not in names:
            names[path] = _free(path, {*made, *names.values(), *(record.path for record in obtained.state)})
    return {path: other for path, other in names.items() if path != other}


def _free(name: str, taken: Collection[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


# Renaming.


def with_targets(document: GraphDocument, names: Mapping[str, str], ops: Collection[str]) -> GraphDocument:
    """Return a document with renamed targets of the nodes with these ops."""
    if not names:
        return document
    nodes = [
        node._replace(target=names.get(node.target, node.target)) if node.op in ops else node for node in document.nodes
    ]
    return replace(document, nodes=tuple(nodes))


def with_paths(document: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    """Return a document with renamed paths of modules and state."""
    if not names:
        return document

    def renamed(record: _Record) -> _Record:
        same_as = record.same_as and names.get(record.same_as, record.same_as)
        return record._replace(path=names.get(record.path, record.path), same_as=same_as)

    return replace(document, modules=tuple(map(renamed, document.modules)), state=tuple(map(renamed, document.state)))


def _with_node_names(
    nodes: Sequence[NodeRecord],
    before: Sequence[NodeRecord],
    expected: Sequence[NodeRecord],
    pairs: Sequence[tuple[int, int]],
) -> tuple[NodeRecord, ...]:
    """Give nodes with a renamed target the names of their partners, if these names are free, for readable reports."""
    partners = {partner: position for position, partner in pairs}
    changed = [place for place, node in enumerate(nodes) if node.target != before[place].target and place in partners]
    if not changed:
        return tuple(nodes)
    kept = {node.name for node in nodes} - {nodes[place].name for place in changed}
    names = {nodes[place].name: expected[partners[place]].name for place in changed}
    if not kept.isdisjoint(names.values()):
        return tuple(nodes)
    rename = partial(rename_references, mapping=names)
    return tuple(
        with_texts(node, rename)._replace(
            name=names.get(node.name, node.name), effects=tuple(map(rename, node.effects))
        )
        for node in nodes
    )
