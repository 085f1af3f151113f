"""Names of nodes: given anew throughout a document, and looked past where a golden's text is compared with one."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

from pytest_fxgraph.document.encoding import CLOSING_LINE
from pytest_fxgraph.document.folding import INDENT, changed
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord, with_references
from pytest_fxgraph.document.text_writer import (
    NO_NODES,
    Texts,
    module_texts,
    node_line,
    seen_lines,
    short_sections,
    state_texts,
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
_Part = TypeVar("_Part")


def rename_nodes(document: GraphDocument, names: Mapping[str, str]) -> GraphDocument:
    """Rename the nodes of a graph wherever they are named; not those of graphs inside it, and not in the code."""
    return replace(document, nodes=tuple([_renamed(node, names) for node in document.nodes]))


def _renamed(node: NodeRecord, names: Mapping[str, str]) -> NodeRecord:
    return with_references(node, names, name=names.get(node.name, node.name))


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
        _check(2 * len(found) == len(told))  # no section stands there twice
        walk = _Walk(document.nodes)
        graph = _lines_of(found.pop("graph", ""))
        walk.level(
            () if graph == (NO_NODES,) else _taken_apart(graph, _lines_of_nodes), "", Texts(refuses_unknown=True)
        )
        _check(walk.position == len(document.nodes))
        modules, state = (_taken_apart(_lines_of(found.pop(title, "")), list) for title in ("modules", "state"))
        _check(_records(modules, "", document.modules, 0, module_texts) == len(document.modules))
        _check(_records(state, "", document.state, 0, state_texts) == len(document.state))
    except LookupError:
        return False
    rest = {title: list(_lines_of(section)) for title, section in found.items()}
    return dict(short_sections(document)) == rest


def _lines_of(section: str) -> tuple[str, ...]:
    return tuple(f"\n{section}".split(f"\n{INDENT}")[1:])


class _Block(NamedTuple, Generic[_Part]):
    """The line of a block, less its ending, with its body."""

    head: str
    path: str
    body: Sequence[_Part | _Block[_Part]]


class _Lines(NamedTuple):
    """Lines of nodes that stand together, and the name and the reference that each line makes."""

    texts: list[str]
    names: list[str]
    references: list[str]


def _lines_of_nodes(texts: Sequence[str]) -> _Lines:
    """Find the names in lines. Raises LookupError for a line that is no node."""
    names = [text[1 : text.find(" ")] if text[:1] == "%" else _name_of_input_or_output(text) for text in texts]
    return _Lines(list(texts), names, [f"%{name}" for name in names])


def _name_of_input_or_output(line: str) -> str:
    """Return the name of the node that a line holds. Raises LookupError for another line."""
    found = _INPUT_OR_OUTPUT.match(line)
    if found is None:
        raise LookupError
    return found[2] or found[1] or "output"


@functools.lru_cache(maxsize=256)  # levels, blocks and tests of one model have parts of their goldens in common
def _taken_apart(
    lines: tuple[str, ...], part_of: Callable[[Sequence[str]], _Part]
) -> tuple[_Part | _Block[_Part], ...]:
    """Return the blocks of one level, and the lines between them as parts. Raises LookupError for an unknown body."""
    bodies: dict[str, tuple[str, ...]] = {}
    known: dict[str, tuple[_Part | _Block[_Part], ...]] = {}
    parts: list[_Part | _Block[_Part]] = []
    position = 0
    # Most lines are no block; the pattern needs ten times as long as this question.
    for place in [place for place, line in enumerate(lines) if line[-1:] == ":" or " like " in line]:
        block = _BLOCK.match(lines[place]) if place >= position else None  # a line before it belongs to a block
        if block is None:
            continue
        if place > position:
            parts.append(part_of(lines[position:place]))
        begin = position = place + 1
        while position < len(lines) and lines[position].startswith(INDENT):
            position += 1
        below = tuple([each[len(INDENT) :] for each in lines[begin:position]])
        shared, head, path, label = block.groups()
        if shared:
            _check(shared not in bodies)
            bodies[shared], known[shared] = below, _taken_apart(below, part_of)
            continue
        if label and not below:
            body = known[label]
        else:
            body = _taken_apart(changed(bodies[label], below) or () if label else below, part_of)
        parts.append(_Block(head, path or head, body))
    return (*parts, part_of(lines[position:])) if position < len(lines) else tuple(parts)


def _check(is_alike: bool) -> None:
    if not is_alike:
        raise LookupError


class _Walk:
    """Compares nodes with the lines of a golden, block by block, under the golden's names."""

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        self._nodes = nodes
        self.position = 0

    def level(self, body: Sequence[_Lines | _Block[_Lines]], base: str, texts: Texts) -> list[str]:
        """Compare a level; return the names of a block's results in the document. Raises LookupError."""
        made: dict[str, str] = {}
        returned = ""
        for part in body:
            returned = ""
            if isinstance(part, _Block):
                self._block(part, base, texts, made)
            elif base and part.texts[-1].startswith("return"):
                returned = part.texts[-1]
                self._lines(part, part.texts[:-1], base, texts, made)
            else:
                self._lines(part, part.texts, base, texts, made)
        _check(bool(returned) == bool(base))
        return [made[name[1:]] for name in returned.removeprefix("return").replace(",", "").split()]

    def _lines(self, part: _Lines, lines: list[str], base: str, texts: Texts, made: dict[str, str]) -> None:
        """Compare nodes with the lines of a part; the `return` of a block is none of them."""
        count = len(lines)
        nodes = self._nodes[self.position : self.position + count]
        self.position += count
        _check(len(nodes) == count)
        # No node reads a later one, so the names of all can be known before the first line is written.
        names = [f"%{node.name}" for node in nodes]
        count += len(made)
        made.update(zip(part.names, names, strict=False))
        _check(len(made) == count)
        texts.update(zip(names, part.references, strict=False))
        written = [node_line(node, own, texts, base) for node, own in zip(nodes, part.names, strict=False)]
        _check(written == lines)

    def _block(self, block: _Block[_Lines], base: str, texts: Texts, made: dict[str, str]) -> None:
        inner = Texts(is_block=True)
        results = self.level(block.body, f"{base}{block.path}.", inner)
        inputs = ", ".join([texts[each] for each in inner.inputs])
        names = block.head.partition(" = ")[0].split(", ") if results else []
        count = len(made) + len(results)
        for name, result in zip(names, results, strict=False):
            made[name[1:]] = result
            texts[result] = name
        _check(len(names) == len(results) and len(made) == count)
        _check(block.head == f"{', '.join(names)}{' = ' if names else ''}{block.path}({inputs})")


def _records(
    body: Sequence[list[str] | _Block[list[str]]],
    base: str,
    records: Sequence[_Record],
    position: int,
    texts_of: Callable[[Sequence[_Record], str], list[str]],
) -> int:
    """Compare modules or tensors with a text, from a position on; return the position behind them."""
    for part in body:
        if isinstance(part, _Block):
            position = _records(part.body, f"{base}{part.path}.", records, position, texts_of)
            continue
        written = texts_of(records[position : position + len(part)], base)
        _check(written == part or seen_lines(written) == part)
        position += len(part)
    return position


def _is_read_alike(text: str, document: GraphDocument) -> bool:
    """Compare by reading, for a graph that holds graphs. Other graphs import no reader."""
    from pytest_fxgraph.document.decoding import decode

    try:
        return _are_alike(decode(text, ""), document)
    except GoldenFormatError:
        return False


def _are_alike(expected: GraphDocument, obtained: GraphDocument) -> bool:
    """Return whether two documents differ in names of nodes, code and sources at most."""
    if len(expected.nodes) != len(obtained.nodes) or len(expected.modules) != len(obtained.modules):
        return False
    names = {other.name: node.name for node, other in zip(expected.nodes, obtained.nodes, strict=True)}
    nodes = tuple([_renamed(node, names)._replace(source=None) for node in obtained.nodes])
    pairs = list(zip(expected.modules, obtained.modules, strict=True))
    for module, other in pairs:
        if (module.graph is None) != (other.graph is None) or module._replace(graph=None) != other._replace(graph=None):
            return False
        if module.graph is not None and other.graph is not None and not _are_alike(module.graph, other.graph):
            return False
    return replace(obtained, nodes=nodes, modules=(), code="") == replace(expected, modules=(), code="")
