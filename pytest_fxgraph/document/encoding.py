"""Documents as the text of a golden file: YAML that people read, one node a line.

Written by hand, because it is done for every golden in every run: PyYAML takes fifty times as long and does not keep
a node on its line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from pytest_fxgraph.document.costs import cost_lines
from pytest_fxgraph.document.model import FORMAT, MOST_RECORDS, GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.errors import DocumentError

# YAML reads these words as truth values or as nothing, if not all versions of it do.
_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"])
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./]*(?: (?=[%A-Za-z0-9_])[A-Za-z0-9_./]*)*(?:%\w+)?\Z", re.ASCII)
# Text that a literal block can hold, less what editors and hooks change and what nobody can see: tabs, blanks at the
# ends of lines, odd spaces, marks of direction, private and unassigned areas.
_SEEN = r"!-~\u00a1-\u00ac\u00ae-\u1fff\u2070-\u2fff\u3001-\ud7ff"
_SEEN_CHARACTER = re.compile(f"[{_SEEN}]")
_LOST_IN_A_BLOCK = re.compile(rf"[^\n {_SEEN}]|\A[ \n]| (?:\n|\Z)|\n\Z")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_LONGEST_SIMPLE_KEY = 120  # YAML allows 1,024 characters for a key without a mark of its own
# The last line of a golden: without it, the file was cut off.
CLOSING_LINE = "end: true"
# Names, operators and literals come again in the next golden; more texts than this would be memory for nothing.
_MOST_REMEMBERED = 16_384


def encode(document: GraphDocument) -> str:
    """Write a document as the whole text of a golden file; what changes between runs is left out.

    The text ends with one line feed, and no line ends with a blank. Raises DocumentError if UTF-8 cannot hold it.
    """
    head = [f"format: {FORMAT}", *(["names: traced"] if document.keeps_traced_names else ())]
    text = "\n".join([*head, *_document_lines(document), CLOSING_LINE, ""])
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"cannot write down {text[error.start - 20 : error.start]!r}...: "
            f"the character {text[error.start]!r} after it is half of a surrogate pair; use a whole character"
        ) from None
    return text


def encode_graph(document: GraphDocument) -> str:
    """Write what a golden's text holds between its head and its closing line."""
    return "\n".join([*_document_lines(document), ""])


def _document_lines(document: GraphDocument) -> list[str]:
    lines = ["nodes:" if document.nodes else "nodes: []"]
    lines += [node_line(node) for node in document.nodes]
    if document.modules:
        lines.append("modules:")
        for module in document.modules:
            lines += module_lines(module)
    if document.state:
        lines.append("state:")
        lines += [state_line(state) for state in document.state]
    if document.notes:
        lines.append("notes:")
        lines += [f"- {quoted(note)}" for note in document.notes]
    if document.facts:
        lines.append(f"facts: {_sequence(document.facts)}")
    if document.symbols:
        lines.append(f"symbols: {_sequence(document.symbols)}")
    if document.cost is not None:
        lines += cost_lines(document.cost, quoted)
    if len(lines) > MOST_RECORDS:
        raise DocumentError(
            f"cannot write down a graph of {len(lines):,} nodes, modules and tensors: a golden holds {MOST_RECORDS:,} "
            "at most; compare its parts, each with a golden of its own"
        )
    return lines + _code_lines(document.code)


def node_line(node: NodeRecord) -> str:
    """Write a node as the line of a golden."""
    quote = quoted
    line = f"- {{name: {quote(node.name)}, op: {quote(node.op)}, target: {quote(node.target)}"
    if node.args:
        line += f", args: {_sequence(node.args)}"
    if node.kwargs:
        line += f", kwargs: {_mapping(node.kwargs)}"
    if node.value is not None:
        line += f", value: {quote(node.value)}"
    if node.effects:
        line += f", effects: {_sequence(node.effects)}"
    if node.scope is not None:
        line += f", scope: {quote(node.scope)}"
    if node.meta:
        line += f", meta: {_mapping(node.meta)}"
    if node.name_from is not None:
        line += f", name_from: {quote(node.name_from)}"
    return line + "}"


def module_lines(module: ModuleRecord) -> list[str]:
    """Write a module as the lines of a golden: one, if no graph is in it."""
    fields = [f"path: {quoted(module.path)}", f"kind: {quoted(module.kind)}"]
    if module.config:
        fields.append(f"config: {_mapping(module.config)}")
    if module.training is not None:
        fields.append("training: true" if module.training else "training: false")
    if module.same_as is not None:
        fields.append(f"same_as: {quoted(module.same_as)}")
    if module.name_from is not None:
        fields.append(f"name_from: {quoted(module.name_from)}")
    if module.graph is None:
        return [f"- {{{', '.join(fields)}}}"]
    # A graph does not fit on a line: the record becomes a block.
    inner = [f"    {line}" if line else "" for line in _document_lines(module.graph)]
    return [f"- {fields[0]}", *(f"  {field}" for field in fields[1:]), "  graph:", *inner]


def state_line(state: StateRecord) -> str:
    """Write a parameter, buffer or constant as the line of a golden."""
    rest = _state_fields(
        state.kind,
        state.value,
        state.requires_grad,
        state.persistent,
        state.same_as,
        state.content,
        state.storage,
        state.name_from,
    )
    return f"- {{path: {quoted(state.path)}, {rest}}}"


@functools.lru_cache(maxsize=4096)  # the tensors of a model are of few sorts: two thirds of the time
def _state_fields(
    kind: str,
    value: str,
    requires_grad: bool,
    persistent: bool,
    same_as: str | None,
    content: str | None,
    storage: str | None,
    name_from: str | None,
) -> str:
    fields = [f"kind: {quoted(kind)}", f"value: {quoted(value)}"]
    fields += ["requires_grad: true"] * requires_grad + ["persistent: false"] * (not persistent)
    texts = {"same_as": same_as, "content": content, "storage": storage, "name_from": name_from}
    fields += [f"{name}: {quoted(text)}" for name, text in texts.items() if text is not None]
    return ", ".join(fields)


def _code_lines(code: str) -> list[str]:
    if not code:
        return []
    if fits_in_a_block(code):
        return ["code: |-", *[f"  {line}" if line else "" for line in code.split("\n")]]
    # What a literal block would lose or hide is kept line by line.
    return ["code:", *(f"- {quoted(line)}" for line in code.split("\n"))]


def fits_in_a_block(code: str) -> bool:
    """Tell whether code can stand below `code:` as it is: no editor or hook would change it, and all of it is seen."""
    if code.isascii():  # the ordinary case: the same question, asked at the speed of C
        is_seen = code.replace("\n", "").isprintable()
        return is_seen and " \n" not in code and code[0] not in " \n" and code[-1] not in " \n"
    return not _LOST_IN_A_BLOCK.search(code)


def _sequence(texts: Sequence[str]) -> str:
    return f"[{quoted(texts[0]) if len(texts) == 1 else ', '.join(map(quoted, texts))}]"


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def _mapping(pairs: tuple[tuple[str, str], ...]) -> str:
    return "{" + ", ".join([f"{_key(name)}: {quoted(value)}" for name, value in pairs]) + "}"


def _key(name: str) -> str:
    key = quoted(name)
    return key if len(key) <= _LONGEST_SIMPLE_KEY else f"? {key}"


@functools.lru_cache(maxsize=_MOST_REMEMBERED)
def quoted(text: str) -> str:
    """Quote a text where YAML would not read it as this text."""
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    if text.isascii() and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    # Half a surrogate pair stays as it is, and is refused when the text is whole.
    if character == " " or _SEEN_CHARACTER.match(character) or 0xD800 <= code < 0xE000:
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
