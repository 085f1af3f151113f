"""Names of nodes: given anew throughout a document, and looked past where a golden's text is compared with one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import CLOSING_LINE
from pytest_fxgraph.document.folding import INDENT, changed
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.text_writer import (
    NO_NODES,
    Texts,
    module_text,
    node_line,
    seen_lines,
    short_sections,
    state_text,
)
from pytest_fxgraph.errors import GoldenFormatError

_HEAD = re.compile(r"format: 3\n(?:names: traced\n)?")
_END = f"\n{CLOSING_LINE}\n"
_CODE = "\ncode: |\n"
_NOT_INDENTED = re.compile(rf"\n(?!{INDENT}|\n|\Z)")
_SECTION = re.compile(r"\n(\w+): \|\n")
_INPUT_OR_OUTPUT = re.compile(r"(?:input \*{0,2}(\w+)(?: as %(\w+))?(?= |\Z)|return\b)")
_LABEL = r"[\w.*]+(?: \(\d+\))?"
_BLOCK = re.compile(
    rf"(?:block ({_LABEL}):|((?:(?:%\w+(?:, %\w+)* = )?([\w.]+)\([%\w, ]*\)|[\w.]+))(?::| like ({_LABEL})))\Z"
)

_Record = TypeVar("_Record", bound="ModuleRecord | StateRecord")


def rename_nodes(document: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    """Rename the nodes of a graph wherever they are named; not those of graphs inside it, and not in the code."""
    return replace(document, nodes=tuple([_renamed(node, names) for node in document.nodes]))


def _renamed(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    return node._replace(
        name=names.get(node.name, node.name),
        args=tuple([rename_references(text, names) for text in node.args]),
        kwargs=tuple([(keyword, rename_references(text, names)) for keyword, text in node.kwargs]),
        effects=tuple([rename_references(text, names) for text in node.effects]),
    )


def differs_in_names_at_most(text: str, document: GraphDocument) -> bool:
    """Return True if a golden's text holds this graph in this order, whatever its nodes are named.

    Generated code is not compared. False means that nothing is known: the text has to be read, which takes six times
    as long (mobilenetv2: 10 ms and 1.7 ms CPU).
    """
    if any(module.graph is not None for module in document.modules):
        return _is_read_alike(text, document)
    head = _HEAD.match(text)
    if head is None or not text.endswith(_END):
        return False
    start_of_code = text.find(_CODE, head.end())
    end = len(text) - len(_END)
    if start_of_code >= 0:
        if _NOT_INDENTED.search(text, start_of_code + len(_CODE) - 1, end):
            return False
        end = start_of_code
    _, *told = _SECTION.split(text[head.end() - 1 : end])
    found = dict(zip(told[::2], told[1::2], strict=True))
    try:
        walk = _Walk(document.nodes)
        texts = Texts(refuses_unknown=True)
        lines = _lines_of(found.pop("graph", ""))
        walk.level([] if lines == [NO_NODES] else _compiled(lines), "", texts)
        _check(walk.position == len(document.nodes))
        modules, state = (_compiled(_lines_of(found.pop(title, ""))) for title in ("modules", "state"))
        _check(_records(modules, "", document.modules, 0, module_text) == len(document.modules))
        _check(_records(state, "", document.state, 0, state_text) == len(document.state))
    except LookupError:
        return False
    return dict(short_sections(document)) == {title: _lines_of(section) for title, section in found.items()}


def _lines_of(section: str) -> list[str]:
    return f"\n{section}".split(f"\n{INDENT}")[1:]


class _Block(NamedTuple):
    """The line of a block, less its ending, with its body."""

    head: str
    path: str
    body: _Body


_Body = Sequence[list[str] | _Block]  # blocks, and the lines between them


def _compiled(lines: Sequence[str]) -> _Body:
    """Take the blocks of one level apart; other lines stay as they are. Raises LookupError for an unknown body."""
    bodies: dict[str, tuple[str, ...]] = {}
    known: dict[str, _Body] = {}
    compiled: list[list[str] | _Block] = []
    position = 0
    # Most lines are no block; the pattern needs ten times as long as this question.
    for place in [place for place, line in enumerate(lines) if line[-1:] == ":" or " like " in line]:
        block = _BLOCK.match(lines[place]) if place >= position else None  # a line before it belongs to a block
        if block is None:
            continue
        compiled.append(list(lines[position:place]))
        begin = position = place + 1
        while position < len(lines) and lines[position].startswith(INDENT):
            position += 1
        below = tuple([each[len(INDENT) :] for each in lines[begin:position]])
        shared, head, path, label = block.groups()
        path = path or head
        if shared:
            bodies[shared], known[shared] = below, _compiled(below)
        elif label and below:
            compiled.append(_Block(head, path, _compiled(changed(bodies[label], below) or ())))
        else:
            compiled.append(_Block(head, path, known[label] if label else _compiled(below)))
    return [*compiled, list(lines[position:])]


def _name_of_input_or_output(line: str) -> str:
    """Return the name of the node that a line holds. Raises LookupError for another line."""
    found = _INPUT_OR_OUTPUT.match(line)
    if found is None:
        raise LookupError
    return found[2] or found[1] or "output"


def _check(is_alike: bool) -> None:
    if not is_alike:
        raise LookupError


class _Walk:
    """Compares nodes with the lines of a golden, block by block, under the golden's names."""

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        self._nodes = nodes
        self.position = 0

    def level(self, body: _Body, base: str, texts: Texts) -> list[str]:
        """Compare a level; return the names of a block's results in the document. Raises LookupError."""
        made: dict[str, str] = {}
        returned = ""
        for part in body:
            if isinstance(part, _Block):
                self._block(part, base, texts, made)
                continue
            if base and part and part[-1].startswith("return"):
                *part, returned = part
            self._lines(part, base, texts, made)
        _check(bool(returned) == bool(base))
        return [made[name[1:]] for name in returned.removeprefix("return").replace(",", "").split()]

    def _lines(self, lines: list[str], base: str, texts: Texts, made: dict[str, str]) -> None:
        nodes = self._nodes[self.position : self.position + len(lines)]
        self.position += len(lines)
        _check(len(nodes) == len(lines))
        # No node reads a later one, so the names of all can be known before the first line is written.
        own = [line[1 : line.find(" ")] if line[:1] == "%" else _name_of_input_or_output(line) for line in lines]
        names = [f"%{node.name}" for node in nodes]
        count = len(made) + len(lines)
        made.update(zip(own, names, strict=True))
        _check(len(made) == count)
        texts.update(zip(names, [f"%{name}" for name in own], strict=True))
        written = [node_line(node, name, texts, base) for node, name in zip(nodes, own, strict=True)]
        _check(written == lines or seen_lines(written) == lines)

    def _block(self, block: _Block, base: str, texts: Texts, made: dict[str, str]) -> None:
        inner = Texts(is_block=True)
        results = self.level(block.body, f"{base}{block.path}.", inner)
        inputs = ", ".join([texts[each] for each in inner.inputs])
        names = block.head.partition(" = ")[0].split(", ") if results else []
        _check(len(names) == len(results) and not made.keys() & {name[1:] for name in names})
        for name, result in zip(names, results, strict=True):
            made[name[1:]] = result
            texts[result] = name
        _check(block.head == f"{', '.join(names)}{' = ' if names else ''}{block.path}({inputs})")


def _records(
    body: _Body,
    base: str,
    records: Sequence[_Record],
    position: int,
    text_of: Callable[[_Record, str], str],
) -> int:
    """Compare modules or tensors with a text, from a position on; return the position behind them."""
    for part in body:
        if isinstance(part, _Block):
            position = _records(part.body, f"{base}{part.path}.", records, position, text_of)
            continue
        written = [text_of(record, base) for record in records[position : position + len(part)]]
        _check(written == part or seen_lines(written) == part)
        position += len(part)
    return position


def _is_read_alike(text: str, document: GraphDocument) -> bool:
    """Compare by reading, for a graph that holds graphs."""
    try:
        return _are_alike(decode(text, ""), document)
    except GoldenFormatError:
        return False


def _are_alike(expected: GraphDocument, obtained: GraphDocument) -> bool:
    """Return whether two documents differ in names of nodes, code and sources at most."""
    if len(expected.nodes) != len(obtained.nodes) or len(expected.modules) != len(obtained.modules):
        return False
    names = {other.name: node.name for node, other in zip(expected.nodes, obtained.nodes, strict=True)}
    if len(set(names.values())) < len(names):
        return False
    nodes = tuple([_renamed(node, names)._replace(source=None) for node in obtained.nodes])
    pairs = list(zip(expected.modules, obtained.modules, strict=True))
    for module, other in pairs:
        if (module.graph is None) != (other.graph is None) or module._replace(graph=None) != other._replace(graph=None):
            return False
        if module.graph is not None and other.graph is not None and not _are_alike(module.graph, other.graph):
            return False
    return replace(obtained, nodes=nodes, modules=(), code="") == replace(expected, modules=(), code="")
