"""Reads the text of a document, which `document/text_writer` or a person wrote.

The reader refuses a text with the line and the reason. It unfolds blocks, so that the document holds each node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pytest_fxgraph.document import line_reader
from pytest_fxgraph.document.costs import CostBlock
from pytest_fxgraph.document.folding import changed
from pytest_fxgraph.document.literals import references, rename_references
from pytest_fxgraph.document.model import (
    MOST_RECORDS,
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    StateRecord,
    YamlDataError,
    with_references,
)
from pytest_fxgraph.document.spelling import plain_text, split_at
from pytest_fxgraph.document.text_writer import NO_NODES, block_prefix, decoded_name

_MOST_DEPTH = 64  # of blocks in blocks, and of graphs in graphs

_LABEL = r"[\w.*]+(?: \(\d+\))?"
_ENDING = rf"(?::| like (?P<label>{_LABEL}))\Z"
_NODES_HEAD = re.compile(rf"(?:(?P<made>%\w+(?:, *%\w+)*) *= *)?(?P<path>[\w.]+)\((?P<inputs>[%\w, ]*)\){_ENDING}")
_RECORDS_HEAD = re.compile(rf"(?P<path>[\w.]+){_ENDING}")
_BLOCK = re.compile(rf"block ({_LABEL}):\Z")

Line = tuple[int, str]  # its number, counted from 1, and its text
_T = TypeVar("_T")
_Record = TypeVar("_Record", bound="ModuleRecord | StateRecord")
_Paths = set[tuple[str, tuple[str, ...]]]  # paths of records, and those of blocks with their lines


def read_document(lines: Sequence[Line]) -> GraphDocument:
    """Read the lines of a whole document, with titles above its sections. Raises YamlDataError."""
    return _Reader().document(lines, 0)


def read_sections(graph: Sequence[Line], sections: Mapping[str, Sequence[Line]]) -> GraphDocument:
    """Read the lines of a graph and of each section below it. Raises YamlDataError."""
    return _Reader().of_sections(graph, sections, 0)


class _Item(NamedTuple):
    """A line and the lines that are indented below it."""

    number: int
    text: str
    below: list[Line]


def _items(lines: Sequence[Line]) -> Iterator[_Item]:
    """Yield the lines of one level; blank lines and comments are left out."""
    margin = _common_margin([line for _, line in lines if _is_filled(line)])
    position = 0
    while position < len(lines):
        number, line = lines[position]
        position += 1
        if not _is_filled(line):
            continue
        if _margin(line) > margin:
            raise YamlDataError("it is indented, and nothing that could hold it stands before it", number)
        begin = position
        while position < len(lines) and (not lines[position][1].strip() or _margin(lines[position][1]) > margin):
            position += 1
        yield _Item(number, _unquoted(line.strip(), number), _dedented(lines[begin:position]))


def _is_filled(line: str) -> bool:
    bare = line.lstrip(" ")
    return bool(bare) and not bare.startswith("#")


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _common_margin(lines: Sequence[str]) -> int:
    return min(map(_margin, lines), default=0)


def _dedented(lines: Sequence[Line]) -> list[Line]:
    """Return lines without the indentation that they share, and without blank lines around them."""
    margin = _common_margin([line for _, line in lines if line])
    below = [(number, line[margin:]) for number, line in lines]
    while below and not below[-1][1]:
        below.pop()
    while below and not below[0][1]:
        del below[0]
    return below


def _unquoted(line: str, number: int) -> str:
    """Return a line that stands in quotes behind a tilde, which is one that an editor could change."""
    if not line.startswith("~"):
        return line
    try:
        return plain_text(line[1:])
    except YamlDataError as error:
        raise YamlDataError(error.reason, number) from None


class _Level(NamedTuple):
    """One level of a graph that is read: the outermost, or a block."""

    base: str  # path of the block with a dot behind it
    names: dict[str, str]  # from the name in the block to the name in the document


class _Reader:
    """Reads one text; it counts the records, because blocks in blocks could stand for more than memory holds."""

    def __init__(self) -> None:
        self._count = 0

    def document(self, lines: Sequence[Line], depth: int) -> GraphDocument:
        """Read lines with sections."""
        graph: list[Line] = []
        sections: dict[str, list[Line]] = {}
        current = graph
        margin = _common_margin([line for _, line in lines if line.strip()])
        for number, line in lines:
            title = line[margin:].rstrip()
            if title.endswith(":") and title[:-1] in line_reader.SECTIONS:
                if title[:-1] in sections:
                    raise YamlDataError(f"the section {title} stands there twice", number)
                current = sections[title[:-1]] = []
            else:
                current.append((number, line.rstrip()))
        return self.of_sections(graph, sections, depth)

    def of_sections(self, graph: Sequence[Line], sections: Mapping[str, Sequence[Line]], depth: int) -> GraphDocument:
        """Read sections."""
        if depth > _MOST_DEPTH:
            raise YamlDataError(f"graphs lie in graphs deeper than {_MOST_DEPTH} levels", graph[0][0] if graph else 1)
        has_facts = "cost" in sections or "notes" in sections
        nodes = () if has_facts and not any(_is_filled(line) for _, line in graph) else self._graph(graph)

        def module(item: _Item, base: str) -> ModuleRecord:
            record = _at(item, line_reader.read_module, base)
            return record._replace(graph=self.document(item.below, depth + 1)) if item.below else record

        return GraphDocument(
            nodes=nodes,
            modules=tuple(self._records(sections.get("modules", ()), module, set())),
            state=tuple(self._records(sections.get("state", ()), _state_of_item, set())),
            code=_code(sections["code"]) if "code" in sections else "",
            notes=tuple(item.text for item in _flat(sections.get("notes", ()))),
            symbols=tuple(item.text for item in _flat(sections.get("symbols", ()))),
            cost=_costs(sections["cost"]) if "cost" in sections else None,
        )

    def count(self, number: int) -> None:
        """Count a record. Raises YamlDataError if there are too many."""
        self._count += 1
        if self._count > MOST_RECORDS:
            raise YamlDataError(f"it has more than {MOST_RECORDS:,} nodes, modules and tensors", number)

    def _records(
        self, lines: Sequence[Line], read: Callable[[_Item, str], _Record], known: _Paths, base: str = ""
    ) -> Iterator[_Record]:
        """Read modules or tensors, in blocks or not. `known` holds the paths of the section that were read."""
        templates = _Templates()
        if base.count(".") > 4 * _MOST_DEPTH:
            raise YamlDataError(f"blocks lie in blocks deeper than {_MOST_DEPTH} levels", lines[0][0])
        for item in _items(lines):
            body = templates.take(item, _RECORDS_HEAD)
            if body is None:
                self.count(item.number)
                record = read(item, base)
                _note_path(record.path, (), known, item.number)
                yield record
            elif body.path:
                _note_path(f"{base}{body.path}", body.lines, known, item.number)
                yield from self._records(body.lines, read, known, f"{base}{body.path}.")

    def _graph(self, lines: Sequence[Line]) -> tuple[NodeRecord, ...]:
        items = list(_items(lines))
        if [item.text for item in items] == [NO_NODES]:
            return ()
        if not items:
            raise YamlDataError(f"a graph without a node is written as {NO_NODES!r}", lines[0][0] if lines else 1)
        nodes: list[NodeRecord] = []
        numbers: list[int] = []
        self._level(items, _Level("", {}), nodes, numbers)
        check_references(numbers, nodes)
        return tuple(nodes)

    def _level(self, items: Sequence[_Item], level: _Level, nodes: list[NodeRecord], numbers: list[int]) -> list[str]:
        """Read the nodes of a level; return the results of a block, as references in the document."""
        if level.base.count(".") > 4 * _MOST_DEPTH:
            raise YamlDataError(f"blocks lie in blocks deeper than {_MOST_DEPTH} levels", items[0].number)
        templates = _Templates()
        results: list[str] | None = None
        for item in items:
            if results is not None:
                raise YamlDataError("it stands behind the `return` of its block", item.number)
            body = templates.take(item, _NODES_HEAD)
            if body is not None:
                if body.path:
                    self._block(item, body, level, nodes, numbers)
                continue
            if item.below:
                raise YamlDataError("it is indented, and the line before it is no block", item.below[0][0])
            self.count(item.number)
            local = _at(item, line_reader.read_node)
            if level.base and local.record.op == "output" and not local.is_general:
                results = _results(local.record, level, item.number)
            else:
                nodes.append(_node_of(local, level, item.number))
                numbers.append(item.number)
        if level.base and results is None:
            raise YamlDataError(f"the block {level.base[:-1]!r} has no `return`", items[-1].number if items else None)
        return results or []

    def _block(self, item: _Item, body: _Body, level: _Level, nodes: list[NodeRecord], numbers: list[int]) -> None:
        """Read a block: its nodes go to the document, and its results get names in the level around it."""
        inputs = [f"%{name}" for name in references(body.inputs)]
        _check_known(inputs, level, item.number)
        names = {str(place): rename_references(name, level.names)[1:] for place, name in enumerate(inputs)}
        inner = _Level(f"{level.base}{body.path}.", names)
        results = self._level(list(_items(body.lines)), inner, nodes, numbers)
        made = references(body.made)
        if len(made) != len(results):
            raise YamlDataError(f"it names {len(made)} results, and its block returns {len(results)}", item.number)
        for name, result in zip(made, results, strict=True):
            if name in level.names:
                raise YamlDataError(f"two values are named {name!r}", item.number)
            level.names[name] = result[1:]


class _Body(NamedTuple):
    """A block as its line tells it, with the lines of its body."""

    path: str
    made: str
    inputs: str
    lines: list[Line]


class _Templates:
    """The shared bodies of a level."""

    def __init__(self) -> None:
        self._lines: dict[str, list[Line]] = {}

    def take(self, item: _Item, head: re.Pattern[str]) -> _Body | None:
        """Read the line of a block, or of a shared body (whose path is empty); None for any other line."""
        if not (item.text.endswith(":") or " like " in item.text):
            return None
        if shared := _BLOCK.match(item.text):
            if shared[1] in self._lines:
                raise YamlDataError(f"two blocks are named {shared[1]!r}", item.number)
            self._lines[shared[1]] = item.below
            return _Body("", "", "", [])
        found = head.match(item.text)
        if found is None:
            return None
        told = found.groupdict()
        return _Body(told["path"], told.get("made") or "", told.get("inputs") or "", self._body(item, found))

    def _body(self, item: _Item, found: re.Match[str]) -> list[Line]:
        label = found["label"]
        if label is None:
            return item.below
        if label not in self._lines:
            raise YamlDataError(f"no `block {label}:` stands before it", item.number)
        template = self._lines[label]
        if not item.below:
            return template
        texts = changed(tuple([line for _, line in template]), tuple([line for _, line in item.below]))
        if texts is None:
            raise YamlDataError(f"its lines marked by `-`, or not marked, are not those of {label}", item.number)
        return [(item.number, text) for text in texts]


def _note_path(path: str, below: Sequence[Line], known: _Paths, number: int) -> None:
    noted = path, tuple([text for _, text in below])  # a layer that runs twice may have two blocks of other lines
    if noted in known:  # a merge that kept both sides leaves such lines
        raise YamlDataError(f"{path!r} stands there twice", number)
    known.add(noted)


def _at(item: _Item, read: Callable[..., _T], *args: object) -> _T:
    """Read the text of a line; an error gets its number."""
    try:
        return read(item.text, *args)
    except YamlDataError as error:
        raise YamlDataError(error.reason, error.line or item.number) from None


def _flat(lines: Sequence[Line]) -> Iterator[_Item]:
    for item in _items(lines):
        if item.below:
            raise YamlDataError("it is indented more than the line before it", item.below[0][0])
        yield item


# Nodes.


def _results(record: NodeRecord, level: _Level, number: int) -> list[str]:
    texts = list(record.args)
    _check_known(texts, level, number)
    if record.kwargs or record.value is not None or not all(re.fullmatch(r"%\w+", text) for text in texts):
        raise YamlDataError("a block returns names alone, as in `return %add`", number)
    return [rename_references(text, level.names) for text in texts]


def _check_known(texts: Sequence[str], level: _Level, number: int) -> None:
    for text in texts:
        for name in references(text):
            if name not in level.names:
                raise YamlDataError(f"it reads %{name}, which no node before it makes", number)


def _node_of(local: line_reader.LocalNode, level: _Level, number: int) -> NodeRecord:
    """Return a node of a block as the document has it."""
    record, base, names = local.record, level.base, level.names
    own = record.name
    if base and own.isdecimal():
        raise YamlDataError(f"the name %{own} is that of an input of the block", number)
    if own in names:
        raise YamlDataError(f"two values are named {own!r}", number)
    if not base:
        names[own] = own
        return with_references(record, names)
    if record.op in ("placeholder", "output"):
        raise YamlDataError("an input or output of the graph stands in a block", number)
    names[own] = block_prefix(base) + decoded_name(own)
    _check_known(record.args, level, number)
    _check_known([text for _, text in (*record.kwargs, *record.meta)], level, number)
    scope = base[:-1] if record.scope is None else base + record.scope
    target = base + record.target if local.is_relative else record.target
    return with_references(record, names, name=names[own], target=target, scope=scope)


def check_references(numbers: Sequence[int], nodes: Sequence[NodeRecord]) -> None:
    """Refuse a graph in which two nodes have one name, or one reads a name that no node before it makes."""
    known: set[str] = set()
    for number, node in zip(numbers, nodes, strict=True):
        for text in (*node.args, *(value for _, value in (*node.kwargs, *node.meta))):
            for name in references(text):
                if name not in known:
                    raise YamlDataError(f"node {node.name!r} reads %{name}, which no node before it makes", number)
        if node.name in known:
            raise YamlDataError(f"two nodes are named {node.name!r}", number)
        known.add(node.name)


# Modules, tensors, costs and code.


def _state_of_item(item: _Item, base: str) -> StateRecord:
    if item.below:
        raise YamlDataError("it is indented below a tensor", item.below[0][0])
    return _at(item, line_reader.read_state, base)


def _costs(lines: Sequence[Line]) -> CostBlock:
    items = list(_flat(lines))
    if not items:
        raise YamlDataError("the section `cost:` is empty", lines[0][0] if lines else None)
    total, *modules = [_at(item, line_reader.read_cost_line) for item in items]
    counts = dict(total[1])
    peak, place = counts.pop("peak_activation", ""), counts.pop("peak_at", "")
    uncounted = counts.pop("uncounted", "[]").strip("[]")
    if total[0] != "total" or not line_reader.is_count(peak) or not place.startswith('"'):
        raise YamlDataError(
            'the costs begin with `total: flops=0, ..., peak_activation=0, peak_at="PATH"`', items[0].number
        )
    records = [
        (path, _at(item, line_reader.read_cost_record, each))
        for item, (path, each) in zip(items[1:], modules, strict=True)
    ]
    return CostBlock(
        _at(items[0], line_reader.read_cost_record, counts),
        int(peak),
        plain_text(place),
        tuple(records),
        tuple([plain_text(each.strip()) for each in split_at(uncounted, ",")]) if uncounted else (),
    )


def _code(lines: Sequence[Line]) -> str:
    margin = _common_margin([line for _, line in lines if line])
    texts = [line[margin:] for _, line in lines]
    while texts and not texts[-1]:
        texts.pop()
    if not texts:
        raise YamlDataError("no code stands below `code:`", lines[0][0] - 1 if lines else None)
    is_quoted = all(text.startswith('"') for text in texts)
    return "\n".join(map(plain_text, texts) if is_quoted else texts)
