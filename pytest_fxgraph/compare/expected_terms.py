"""The obtained document in the expected one's terms: what nobody named gets its names, what is close its numbers.

A name that a tracer or a capture made says nothing, so it is not compared. To find out which is which, nodes are paired
with such names left out. Inputs pair by their place; a constant is what it holds; a graph in the graph is known by who
runs it, a symbol by the values it stands in. What then has another name is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.close_numbers import are_close_contents, close_argument, without_floats
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import find_isomorphism
from pytest_fxgraph.compare.symbols import (
    pair_symbols,
    same_sizes,
    without_sizes,
)
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.symbol_names import WORD, rename_symbols, rename_symbols_of_note

# Brings both documents into an order before nodes are paired.
Prepare = Callable[[GraphDocument, GraphDocument], tuple[GraphDocument, GraphDocument]]
_HOLDERS = ("get_attr", "call_module")


def in_expected_terms(
    expected: GraphDocument, obtained: GraphDocument, *, is_close: bool = False, prepare: Prepare | None = None
) -> GraphDocument:
    """Return the obtained document with the expected one's names for what nobody named in either.

    With `is_close`, floats that are close to the expected ones become these, in arguments, configurations and contents.
    What only one document says of a name does not count.
    """
    symbols: dict[str, str] = {}
    terms = _Terms(expected.symbols, obtained.symbols, symbols, is_close, prepare)
    return terms.renamed(expected, obtained)


@dataclass(frozen=True)
class _Terms:
    """What holds for a document and the graphs in it; `symbols` grows from graph to graph."""

    expected_symbols: Collection[str]
    obtained_symbols: Collection[str]
    symbols: dict[str, str]
    is_close: bool
    prepare: Prepare | None

    def renamed(self, expected: GraphDocument, obtained: GraphDocument) -> GraphDocument:
        """Return an obtained graph in the terms of an expected one."""
        inputs = _input_names(_inputs(expected), _inputs(obtained))
        has_symbols = bool(self.expected_symbols and self.obtained_symbols)
        made, obtained_made = _made_paths(expected), _made_paths(obtained)
        if not (made and obtained_made):
            made = obtained_made = frozenset()
        has_graphs = any(module.graph is not None for module in expected.modules)
        if not (inputs or has_symbols or made or self.is_close or has_graphs):
            return obtained
        by_input = _with_targets(obtained, inputs, ("placeholder",))
        pairs = self._pairs(expected, by_input, made, obtained_made)
        paths = _path_names(expected, obtained, pairs, made, obtained_made)
        if has_symbols:
            self._pair_symbols(expected, obtained, pairs)
        renamed = _with_paths(_with_targets(by_input, paths, _HOLDERS), paths)
        renamed = self._with_terms_of_nodes(renamed, expected, pairs)
        return replace(
            renamed,
            nodes=_with_node_names(renamed.nodes, obtained.nodes, expected.nodes, pairs),
            modules=self._modules(renamed.modules, expected),
            state=self._state(renamed.state, expected),
            notes=tuple(rename_symbols_of_note(note, self.symbols) for note in renamed.notes),
        )

    def _pairs(
        self, expected: GraphDocument, obtained: GraphDocument, made: Collection[str], obtained_made: Collection[str]
    ) -> list[tuple[int, int]]:
        """Pair nodes without regard to what nobody named."""
        kept = _kept_paths(expected, obtained, made, obtained_made)
        plain = self._plain(expected, made, kept, self.expected_symbols)
        obtained_plain = self._plain(obtained, obtained_made, kept, self.obtained_symbols)
        if self.prepare is not None:
            plain, obtained_plain = self.prepare(plain, obtained_plain)
        index, obtained_index = graph_index_of(plain), graph_index_of(obtained_plain)
        partner = find_isomorphism(index, obtained_index)
        return align(index, obtained_index).pairs() if partner is None else list(enumerate(partner))

    def _plain(
        self, document: GraphDocument, made: Collection[str], kept: Collection[str], symbols: Collection[str]
    ) -> GraphDocument:
        """Return a graph whose nodes say what a made constant holds in place of its name, and nothing of symbols."""
        contents = {record.path: record for record in document.state}
        no_names = dict.fromkeys(symbols, "?")

        def target(node: NodeRecord) -> str:
            if node.op not in _HOLDERS or node.target not in made or node.target in kept:
                return node.target
            record = contents.get(node.target)
            return (
                "a graph" if record is None else f"a constant {record.value} {self._text(_content(record, contents))}"
            )

        nodes = [
            replace(
                node,
                target=target(node),
                args=tuple(self._text(rename_symbols(text, no_names)) for text in node.args),
                kwargs=tuple((key, self._text(rename_symbols(text, no_names))) for key, text in node.kwargs),
                value=None if node.value is None else without_sizes(node.value, symbols),
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
        # What only a graph inside of this one says is paired there.
        used = _words_of(obtained) if unknown else ()
        for symbol in unknown:
            if symbol in used:
                self.symbols[symbol] = _free(symbol, {*self.expected_symbols, *self.symbols.values()})

    def _with_terms_of_nodes(
        self, obtained: GraphDocument, expected: GraphDocument, pairs: Sequence[tuple[int, int]]
    ) -> GraphDocument:
        """Rename symbols, and take over the texts of paired nodes that mean the same."""
        nodes = [self._with_symbols(node) for node in obtained.nodes] if self.symbols else list(obtained.nodes)
        for position, partner in pairs if self.symbols or self.is_close else ():
            node, other = expected.nodes[position], nodes[partner]
            value = node.value if other.value and node.value and same_sizes(node.value, other.value) else other.value
            args, kwargs = other.args, other.kwargs
            if self.is_close:
                args = self._close_arguments(node.args, args)
                known = dict(node.kwargs)
                kwargs = tuple((key, close_argument(known.get(key, text), text)) for key, text in kwargs)
            if (value, args, kwargs) != (other.value, other.args, other.kwargs):
                nodes[partner] = replace(other, value=value, args=args, kwargs=kwargs)
        return replace(obtained, nodes=tuple(nodes))

    def _close_arguments(self, expected: Sequence[str], obtained: tuple[str, ...]) -> tuple[str, ...]:
        if len(expected) != len(obtained):
            return obtained
        found = tuple(map(close_argument, expected, obtained))
        if found == obtained and self.prepare is not None:
            # Operands may have changed places.
            return tuple(map(close_argument, reversed(expected), obtained))
        return found

    def _with_symbols(self, node: NodeRecord) -> NodeRecord:
        args = tuple(rename_symbols(text, self.symbols) for text in node.args)
        kwargs = tuple((key, rename_symbols(text, self.symbols)) for key, text in node.kwargs)
        value = None if node.value is None else rename_symbols(node.value, self.symbols)
        return replace(node, args=args, kwargs=kwargs, value=value)

    def _modules(self, modules: Sequence[ModuleRecord], expected: GraphDocument) -> tuple[ModuleRecord, ...]:
        records = {record.path: record for record in expected.modules}
        return tuple(self._module(module, records.get(module.path)) for module in modules)

    def _module(self, module: ModuleRecord, expected: ModuleRecord | None) -> ModuleRecord:
        if expected is None:
            return module
        graph = module.graph
        if graph is not None and expected.graph is not None:
            graph = self.renamed(expected.graph, graph)
        config = module.config
        if self.is_close:
            known = dict(expected.config)
            config = tuple((key, close_argument(known.get(key, text), text)) for key, text in config)
        return replace(module, graph=graph, config=config)

    def _state(self, state: Sequence[StateRecord], expected: GraphDocument) -> tuple[StateRecord, ...]:
        if not self.is_close:
            return tuple(state)
        return close_contents(state, expected.state)


def _words_of(document: GraphDocument) -> set[str]:
    texts = [text for node in document.nodes for text in (node.value, *node.args, *dict(node.kwargs).values())]
    return {word for text in texts if text is not None for word in WORD.findall(text)}


def close_contents(state: Sequence[StateRecord], expected: Sequence[StateRecord]) -> tuple[StateRecord, ...]:
    """Return obtained state with the contents of the expected one where these are close."""
    known = {record.path: record for record in expected}
    obtained = {record.path: record for record in state}
    return tuple(_close_record(record, known.get(record.path), known, obtained) for record in state)


def _close_record(
    record: StateRecord,
    expected: StateRecord | None,
    known: Mapping[str, StateRecord],
    obtained: Mapping[str, StateRecord],
) -> StateRecord:
    if expected is None or record.value != expected.value or record.content is None:
        return record
    content = _content(expected, known)
    if content is not None and are_close_contents(content, record.content, record.value):
        return replace(record, content=content)
    return record


def _content(record: StateRecord, records: Mapping[str, StateRecord]) -> str | None:
    # Of several names of one tensor, the one that was met first has the content.
    return records.get(record.same_as or "", record).content


# Names of inputs.


def _inputs(document: GraphDocument) -> list[NodeRecord]:
    return [node for node in document.nodes if node.op == "placeholder"]


def _input_names(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> dict[str, str]:
    """Map the obtained inputs that nobody named to the expected ones at their place."""
    names: dict[str, str] = {}
    for node, other in _placed(expected, obtained):
        if node.name_from == other.name_from == "position" and _stars(node) == _stars(other):
            names[other.target] = node.target
    names |= _names_by_source(expected, obtained)
    taken = {node.target for node in expected}
    for other in obtained:
        # An input that came in must not look like one that was there.
        if other.name_from == "position" and other.target not in names and other.target in names.values():
            names[other.target] = _free(other.target, {*taken, *names.values()})
    return {name: other for name, other in names.items() if name != other}


def _stars(node: NodeRecord) -> int:
    return len(node.target) - len(node.target.lstrip("*"))


def _placed(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> list[tuple[NodeRecord, NodeRecord]]:
    """Pair inputs by place; where some came or went, from both ends as far as their values fit."""
    if len(expected) == len(obtained):
        return list(zip(expected, obtained, strict=True))
    pairs: list[tuple[NodeRecord, NodeRecord]] = []
    for node, other in zip(expected, obtained, strict=False):
        if node.value != other.value:
            break
        pairs.append((node, other))
    left = min(len(expected), len(obtained)) - len(pairs)
    for node, other in zip(expected[::-1][:left], obtained[::-1][:left], strict=True):
        if node.value != other.value:
            break
        pairs.append((node, other))
    return pairs


def _names_by_source(expected: Sequence[NodeRecord], obtained: Sequence[NodeRecord]) -> dict[str, str]:
    """Map inputs that stand in the order of their first use: a name that both sides have is the same input."""
    names = [node.target for node in expected if node.name_from == "source"]
    obtained_names = [node.target for node in obtained if node.name_from == "source"]
    if len(names) != len(obtained_names):
        return {}
    left = [name for name in names if name not in obtained_names]
    return dict(zip([name for name in obtained_names if name not in names], left, strict=True))


# Paths of constants and of graphs.


def _made_paths(document: GraphDocument) -> frozenset[str]:
    """Give the paths that nobody chose."""
    records: Iterable[ModuleRecord | StateRecord] = (*document.modules, *document.state)
    return frozenset(record.path for record in records if record.name_from is not None)


def _kept_paths(
    expected: GraphDocument, obtained: GraphDocument, made: Collection[str], obtained_made: Collection[str]
) -> set[str]:
    """Give the paths that both documents have and of whose tensor one does not say what it holds: the name is all."""
    unknown: set[str] = set()
    for document in (expected, obtained):
        records = {record.path: record for record in document.state}
        unknown |= {path for path, record in records.items() if _content(record, records) is None}
    return {path for path in unknown if path in made and path in obtained_made}


def _path_names(
    expected: GraphDocument,
    obtained: GraphDocument,
    pairs: Sequence[tuple[int, int]],
    made: Collection[str],
    obtained_made: Collection[str],
) -> dict[str, str]:
    """Map obtained paths that nobody chose to those of the nodes that they pair with."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for position, partner in pairs:
        node, other = expected.nodes[position], obtained.nodes[partner]
        is_made = node.op in _HOLDERS and node.target in made and other.target in obtained_made
        if is_made and node.op == other.op and other.target not in names and node.target not in taken:
            names[other.target] = node.target
            taken.add(node.target)
    left = [
        path for path in dict.fromkeys(node.target for node in obtained.nodes) if path in obtained_made - names.keys()
    ]
    for path in left:
        if path in taken:
            names[path] = _free(path, {*made, *names.values(), *(record.path for record in obtained.state)})
    return {path: other for path, other in names.items() if path != other}


def _free(name: str, taken: Collection[str]) -> str:
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


# Renaming.


def _with_targets(document: GraphDocument, names: Mapping[str, str], ops: Collection[str]) -> GraphDocument:
    if not names:
        return document
    nodes = [
        replace(node, target=names.get(node.target, node.target)) if node.op in ops else node for node in document.nodes
    ]
    return replace(document, nodes=tuple(nodes))


def _with_paths(document: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    if not names:
        return document

    def shared(path: str | None) -> str | None:
        return None if path is None else names.get(path, path)

    modules = [
        replace(record, path=names.get(record.path, record.path), same_as=shared(record.same_as))
        for record in document.modules
    ]
    state = [
        replace(record, path=names.get(record.path, record.path), same_as=shared(record.same_as))
        for record in document.state
    ]
    return replace(document, modules=tuple(modules), state=tuple(state))


def _with_node_names(
    nodes: Sequence[NodeRecord],
    before: Sequence[NodeRecord],
    expected: Sequence[NodeRecord],
    pairs: Sequence[tuple[int, int]],
) -> tuple[NodeRecord, ...]:
    """Name nodes that got another target as their partners are named, where no other node is, so that words fit."""
    partners = {partner: position for position, partner in pairs}
    changed = [place for place, node in enumerate(nodes) if node.target != before[place].target and place in partners]
    if not changed:
        return tuple(nodes)
    kept = {node.name for node in nodes} - {nodes[place].name for place in changed}
    names = {nodes[place].name: expected[partners[place]].name for place in changed}
    if not kept.isdisjoint(names.values()):
        return tuple(nodes)
    return tuple(_renamed_node(node, names) for node in nodes)


def _renamed_node(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    return replace(
        node,
        name=names.get(node.name, node.name),
        args=tuple(rename_references(text, names) for text in node.args),
        kwargs=tuple((key, rename_references(text, names)) for key, text in node.kwargs),
        effects=tuple(rename_references(text, names) for text in node.effects),
    )
