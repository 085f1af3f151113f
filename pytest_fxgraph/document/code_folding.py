"""Generated code with the blocks of its graph folded: a shared body is a function, and each block is a call of it.

    def blocks_N(self, _0):
        up = self.up(_0);  _0 = None
        return up

    def forward(self, x):
        blocks_0 = blocks_N(getattr(self.blocks, "0"), x)
        blocks_1 = blocks_N(getattr(self.blocks, "1"), blocks_0)

Level `exact` compares code, so its goldens hold the whole code. No other level reads the code of a golden.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_fxgraph.document.folding import Block, changes_between
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.text_writer import Ends, GraphText, block_prefix, encoded_name

_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|\.?\b[A-Za-z_]\w*|[\[\](){}]")
_MADE = re.compile(r"    (\w+)(?: : [^=]+)? = ")
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")
_FORWARD = re.compile(r"def forward\(", re.MULTILINE)


def code_in_blocks(document: GraphDocument, text: GraphText, *, folds: bool) -> str:
    """Return the code of a document under the names that its text has, with the blocks of the text folded or whole.

    Code that is folded already, or that a hook wrote, stays unchanged, because its lines are not those of the nodes.
    """
    lines = document.code.split("\n")
    places = _lines_of_blocks(document, text.blocks, lines)
    if not places:
        return document.code
    if folds:
        return "\n".join(_Folding(document, text, lines).folded(text.blocks, places))
    names = {node.name: text.flat_names[place] for place, node in enumerate(document.nodes)}
    changed = {name: flat for name, flat in names.items() if name != flat}
    return "\n".join([_renamed(line, changed) for line in lines]) if changed else document.code


def _lines_of_blocks(
    document: GraphDocument, blocks: Sequence[Block[Ends]], lines: Sequence[str]
) -> list[range] | None:
    """Find the lines of each block; None if a node has no line of its own, or another line stands between."""
    place_of: dict[str, int] = {}
    for place, line in enumerate(lines):
        if made := _MADE.match(line):
            place_of.setdefault(made[1], place)
    found = []
    for block in blocks:
        names = [node.name for node in document.nodes[block.run.start : block.run.stop]]
        first = place_of.get(names[0], -1)
        if [place_of.get(name) for name in names] != list(range(first, first + len(names))):
            return None
        found.append(range(first, first + len(names)))
    return found


class _Shared(NamedTuple):
    name: str
    lines: tuple[str, ...]


class _Folding:
    """Writes the code of one graph."""

    def __init__(self, document: GraphDocument, text: GraphText, lines: Sequence[str]) -> None:
        self._nodes = document.nodes
        self._text = text
        self._lines = lines
        self._outer: dict[str, str] = {}  # names of results
        self._shared: dict[str, _Shared] = {}

    def folded(self, blocks: Sequence[Block[Ends]], places: Sequence[range]) -> Iterator[str]:
        """Yield the lines of the code."""
        body: list[str] = []
        position = 0
        for block, place in zip(blocks, places, strict=True):
            if block.template is not None and not block.changes and block.template not in self._shared:
                self._shared[block.template] = self._shared_body(block, self._lines[place.start : place.stop])
        for block, place in zip(blocks, places, strict=True):
            body += [_renamed(line, self._outer) for line in self._lines[position : place.start]]
            body += self._block(block, self._lines[place.start : place.stop])
            position = place.stop
        body += [_renamed(line, self._outer) for line in self._lines[position:]]
        start = next((number for number, line in enumerate(body) if _FORWARD.match(line)), 0)
        yield from body[:start]
        for shared in self._shared.values():
            yield from (*shared.lines, "")
        yield from body[start:]

    def _block(self, block: Block[Ends], lines: Sequence[str]) -> Iterator[str]:
        """Yield the call of a block, with its changes in comments; the lines of a block that stands alone."""
        made, results = self._results(block)
        shared = self._shared.get(block.template or "")
        if shared is None:
            self._outer.update(made)
            yield from (_renamed(line, self._outer) for line in lines)
            return
        inputs = [self._outer.get(ref[1:], ref[1:]) for ref in block.body.inside.inputs]
        call = f"{shared.name}({', '.join([_owner(block.run.path), *inputs])})"
        self._outer.update(made)
        yield f"    {', '.join(results)}{' = ' if results else ''}{call}"
        changes = changes_between(shared.lines[1:], self._body(block, lines))
        yield from (f"    # {change[:2]}{change[2:].strip()}" for change in changes)

    def _shared_body(self, block: Block[Ends], lines: Sequence[str]) -> _Shared:
        name = _NOT_IN_NAMES.sub("_", (block.template or "").replace("*", "N")).strip("_")
        inputs = ", ".join(["self", *[f"_{place}" for place in range(len(block.body.inside.inputs))]])
        return _Shared(name, (f"def {name}({inputs}):", *self._body(block, lines)))

    def _body(self, block: Block[Ends], lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines of a block under the names that values have in the block."""
        names = {ref[1:]: f"_{place}" for place, ref in enumerate(block.body.inside.inputs)}
        names.update(self._names_inside(block))
        returned = ", ".join([names[ref[1:]] for ref, _ in block.body.inside.outputs])
        owner = _owner(block.run.path)
        return (*[_renamed(line.replace(owner, "self"), names) for line in lines], f"    return {returned}".rstrip())

    def _results(self, block: Block[Ends]) -> tuple[dict[str, str], list[str]]:
        """Return the names that a block's results have outside."""
        outputs = block.body.inside.outputs
        names = self._text.result_names(block.run, block.body.inside, "")
        return {ref[1:]: name for (ref, _), name in zip(outputs, names, strict=True)}, names

    def _names_inside(self, block: Block[Ends]) -> Mapping[str, str]:
        prefix, places = block_prefix(block.run.path), range(block.run.start, block.run.stop)
        names = {self._nodes[place].name: encoded_name(self._text.flat_names[place][len(prefix) :]) for place in places}
        # The code of a block calls builtins, above all getattr().
        return {node: f"{name}_" if hasattr(builtins, name) else name for node, name in names.items()}


def _owner(path: str) -> str:
    """Return the expression of a module as code has it."""
    owner = "self"
    for name in path.split("."):
        owner = f"{owner}.{name}" if name.isidentifier() else f'getattr({owner}, "{name}")'
    return owner


def _renamed(line: str, names: Mapping[str, str]) -> str:
    """Rename the variables of a line, but not attributes, keywords and strings."""
    parts: list[str] = []
    position = depth = 0
    for token in _TOKEN.finditer(line):
        mark = token[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark in names and not (depth and line.startswith(" = ", token.end())):
            parts += [line[position : token.start()], names[mark]]
            position = token.end()
    return "".join([*parts, line[position:]])
