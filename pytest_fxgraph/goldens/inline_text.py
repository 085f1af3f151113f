"""The text of an inline golden: a graph as people write it down, a line for each fact, read back to the same document.

    input x : float32[2, 4]
    %linear = self.linear(%x) : float32[2, 5]
    %relu = torch.relu(%linear)
    return %relu
    module linear = torch.nn.Linear(in_features=4, out_features=5, bias=True)
    parameter linear.weight : float32[5, 4]; requires_grad

Everything that a golden file holds has a line. A record that these spellings cannot tell, of an operator whose name has
a bracket, say, stands as it would in a file: `- {name: add, op: call_function, ...}`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from pytest_fxgraph.document.costs import CostBlock, cost_lines
from pytest_fxgraph.document.decoding import check_references, read_cost, read_module, read_node, read_state
from pytest_fxgraph.document.encoding import fits_in_a_block, module_lines, node_line, quoted, state_line
from pytest_fxgraph.document.literals import string_text
from pytest_fxgraph.document.model import GraphDocument, ModuleRecord, NodeRecord, StateRecord
from pytest_fxgraph.document.yaml_reader import Record, YamlDataError, read_yaml
from pytest_fxgraph.errors import DocumentError, GoldenFormatError
from pytest_fxgraph.goldens.inline_spelling import plain_text, split_at, tidy_text

# What a text without a `facts` line tells. A later release that tells more has to say so in its texts.
_FACTS = ("attributes", "classes", "hooks", "layouts", "nested", "ranges", "views")
_INDENT = "  "
_MOST_DEPTH = 64
_EMPTY = "no nodes"
_REMEDY = "mend the line, or have the text written anew by pytest --fx-update-golden"

_NODE = re.compile(r"%(\w+) *= *(.+)\Z")
_CALLED = re.compile(r"(?:(self)\.|%(\w+)\.(?=\w+\()|(\.)(?=\w+\())?([\w.<>#-]+)")
_INPUT = re.compile(r"input +(\*{0,2}\w+)(?: +as +%(\w+))?")
_MODULE = re.compile(r"module +([\w.-]+) *= *([\w.<>#]+) *(?=\()")
_STATE = re.compile(r"(parameter|buffer|constant) +([\w.-]+) *: *")
_KEYWORD = re.compile(r"(\w+) *=(?!=)")

_T = TypeVar("_T", NodeRecord, ModuleRecord, StateRecord)
_Numbered = tuple[int, str]  # a line with its number, counted from 1


def write_inline(document: GraphDocument) -> str:
    """Write a document as the text of an inline golden, without indentation; every line ends with a line feed.

    Raises DocumentError if UTF-8 cannot hold it.
    """
    facts = () if document.facts == _FACTS else document.facts or ("none",)
    text = "".join(f"{line}\n" for line in _document_lines(document, facts))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DocumentError(
            f"cannot write down {text[max(0, error.start - 20) : error.start]!r}...: "
            f"the character {text[error.start]!r} after it is half of a surrogate pair; use a whole character"
        ) from None
    return text


def dedented(text: str) -> str:
    """Return the text of a literal without the indentation of its code, blank lines around it and blanks at line ends.

    The first line, which begins behind the quotes, has no indentation of its own.
    """
    first, _, rest = text.partition("\n")
    below = textwrap.dedent("\n".join(line.rstrip() for line in rest.split("\n")))
    lines = f"{first.strip()}\n{below}".strip("\n")
    return f"{lines}\n" if lines else ""


def read_inline(text: str, origin: str, first_line: Callable[[], int | None] = lambda: None) -> GraphDocument:
    """Read the text of an inline golden, which `dedented` gave or a person wrote; `origin` names it in errors.

    `first_line` is asked, if something is wrong, for the line of the file in which the text begins. Raises
    GoldenFormatError with the line and the reason for whatever is none.
    """
    try:
        return _Reader(text).document()
    except YamlDataError as error:
        line = error.line or 1
        begin = first_line()
        shown = origin if begin is None else f"{origin.rpartition(':')[0]}:{begin + line - 1}"
        place = f"line {line} of the text, {text.split(chr(10))[line - 1].strip()[:80]!r}"
        raise GoldenFormatError(f"cannot read the inline golden {shown}, {place}: {error.reason}; {_REMEDY}") from None


# Writing.


def _document_lines(document: GraphDocument, facts: tuple[str, ...]) -> Iterator[str]:
    if not document.nodes:
        yield _EMPTY
    for node in (replace(node, source=None) for node in document.nodes):
        yield _exact(node, _node_text(node), _read_node, node_line)
    for module in document.modules:
        bare = replace(module, graph=None)
        yield _exact(bare, _module_text(bare), _read_module, lambda each: module_lines(each)[0])
        if module.graph is not None:
            inner = _document_lines(module.graph, module.graph.facts)
            yield from (f"{_INDENT}{line}" if line else "" for line in inner)
    for record in document.state:
        yield _exact(record, _state_text(record), _read_state, state_line)
    for note in document.notes:
        is_plain = _is_plain(note) and not note.startswith('"')
        yield f"note {note if is_plain else string_text(note)}"
    if document.symbols:
        yield f"symbols {', '.join(map(_word, document.symbols))}"
    if facts:
        yield f"facts {', '.join(facts)}"
    if document.cost is not None:
        yield from (f"cost {line[2:]}" for line in cost_lines(document.cost, quoted)[1:])
    if document.code and fits_in_a_block(document.code):
        yield "code:"
        yield from (f"{_INDENT}{line}" if line else "" for line in document.code.split("\n"))
    elif document.code:
        yield from (f"code {string_text(line)}" for line in document.code.split("\n"))


def _exact(record: _T, text: str, read: Callable[[str, int], _T | None], as_in_a_file: Callable[[_T], str]) -> str:
    """Return a record's text if it is read back as the record, to the letter; else the line of a golden file."""
    try:
        is_same = _is_plain(text) and read(text, 1) == record
    except YamlDataError:
        is_same = False
    return text if is_same else as_in_a_file(record)


def _node_text(node: NodeRecord) -> str:
    arguments = [*node.args, *(f"{keyword}={text}" for keyword, text in node.kwargs)]
    options = [] if node.op != "output" or node.name == "output" else [f"name: {node.name}"]
    if node.op == "placeholder":
        alias = "" if node.target == node.name else f" as %{node.name}"
        text = f"input {node.target}{alias}{''.join(f' = {default}' for default in node.args)}"
    elif node.op == "output":
        text = f"return {', '.join(arguments)}"
    elif node.op == "get_attr":
        text = f"%{node.name} = self.{node.target}"
    else:
        text = f"%{node.name} = {_call_text(node, arguments)}"
    options += [f"effects: {', '.join(node.effects)}"] if node.effects else []
    options += [f"scope: {node.scope}"] if node.scope is not None else []
    options += [f"meta: {', '.join(f'{key}={text}' for key, text in node.meta)}"] if node.meta else []
    options += [f"name_from: {node.name_from}"] if node.name_from is not None else []
    return "; ".join([text if node.value is None else f"{text} : {node.value}", *options])


def _call_text(node: NodeRecord, arguments: list[str]) -> str:
    if node.op == "call_method" and node.args and re.fullmatch(r"%\w+", node.args[0]):
        return f"{node.args[0]}.{node.target}({', '.join(arguments[1:])})"
    prefix = {"call_method": ".", "call_module": "self."}.get(node.op, "")
    return f"{prefix}{node.target}({', '.join(arguments)})"


def _module_text(module: ModuleRecord) -> str:
    options = [] if module.training is None else ["training" if module.training else "not training"]
    options += [f"same_as: {module.same_as}"] if module.same_as is not None else []
    options += [f"name_from: {module.name_from}"] if module.name_from is not None else []
    config = ", ".join(f"{name}={text}" for name, text in module.config)
    return "; ".join([f"module {module.path} = {module.kind}({config})", *options])


def _state_text(state: StateRecord) -> str:
    options = ["requires_grad"] * state.requires_grad + ["not persistent"] * (not state.persistent)
    texts = {"same_as": state.same_as, "storage": state.storage, "name_from": state.name_from}
    options += [f"{key}: {text}" for key, text in texts.items() if text is not None]
    content = "" if state.content is None else f" = {state.content}"
    return "; ".join([f"{state.kind} {state.path} : {state.value}{content}", *options])


def _is_plain(text: str) -> bool:
    """Tell whether a text can stand on a line: all of it is seen, in every version of Python, and nothing is lost."""
    return bool(text) and fits_in_a_block(text) and "\n" not in text and text == text.strip()


def _word(text: str) -> str:
    return text if _is_plain(text) and re.fullmatch(r"\w+", text) else string_text(text)


# Reading.


class _Reader:
    """Reads lines one after the other; those of a graph inside the graph are indented below its module."""

    def __init__(self, text: str) -> None:
        self._lines = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), 1)]

    def document(self) -> GraphDocument:
        """Return the document. Raises YamlDataError for what is none."""
        document = self._block(self._lines, 0)
        return document if document.facts else replace(document, facts=_FACTS)

    def _block(self, lines: list[_Numbered], depth: int) -> GraphDocument:
        """Read the lines of one graph, of which the first that is not blank says how far they are indented."""
        if depth > _MOST_DEPTH:
            raise YamlDataError(f"graphs lie in graphs deeper than {_MOST_DEPTH} levels", lines[0][0])
        block = _Block()
        filled = [line for line in lines if line[1]]
        margin = min((_margin(line) for _, line in filled), default=0)
        position = 0
        while position < len(lines):
            number, line = lines[position]
            position += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            below = position
            while below < len(lines) and (not lines[below][1] or _margin(lines[below][1]) > margin):
                below += 1
            inner, position = lines[position:below], below
            if _margin(line) > margin:
                raise YamlDataError("it is indented, and no module whose graph it could be in stands before it", number)
            self._take(block, number, line.strip(), inner, depth)
        return block.document()

    def _take(self, block: _Block, number: int, line: str, inner: list[_Numbered], depth: int) -> None:
        if line == "code:":
            block.take_code(number, inner)
            return
        block.take(number, line)
        filled = [each for each in inner if each[1] and not each[1].lstrip().startswith("#")]
        if filled and not block.ends_with_module:
            raise YamlDataError("it is indented, and what stands before it is no module", filled[0][0])
        if filled:
            block.modules[-1] = replace(block.modules[-1], graph=self._block(inner, depth + 1))


class _Block:
    """What was read of one graph so far."""

    def __init__(self) -> None:
        self._records: list[Record] = []  # of nodes, for their lines
        self._nodes: list[NodeRecord] = []
        self.modules: list[ModuleRecord] = []
        self.ends_with_module = False
        self._state: list[StateRecord] = []
        self._notes: list[str] = []
        self._lists: dict[str, tuple[str, ...]] = {}
        self._costs: list[_Numbered] = []
        self._code: list[str] = []
        self._is_empty = False

    def take(self, number: int, line: str) -> None:
        """Read one line. Raises YamlDataError if it is none of an inline golden."""
        self.ends_with_module = False
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if line == _EMPTY:
            self._is_empty = True
        elif line.startswith("- {"):
            self._keep(_read_yaml_line(line, number), number)
        elif word == "note" and rest:
            self._notes.append(plain_text(rest, number))
        elif word in ("symbols", "facts") and rest and word not in self._lists:
            self._lists[word] = tuple(plain_text(each.strip(), number) for each in split_at(rest, ",", number))
        elif word == "cost" and rest:
            self._costs.append((number, rest))
        elif word == "code" and rest.startswith('"'):
            self._code.append(plain_text(rest, number))
        else:
            read = _READERS.get(word, _read_node)
            self._keep(read(line, number), number)

    def _keep(self, record: NodeRecord | ModuleRecord | StateRecord, number: int) -> None:
        if isinstance(record, NodeRecord):
            place = Record()
            place.line = number
            self._records.append(place)
            self._nodes.append(record)
        elif isinstance(record, ModuleRecord):
            self.modules.append(record)
            self.ends_with_module = True
        else:
            self._state.append(record)

    def take_code(self, number: int, inner: list[_Numbered]) -> None:
        """Read the block of code below its line."""
        if self._code:
            raise YamlDataError("a graph has its code twice", number)
        margin = min((_margin(line) for _, line in inner if line), default=0)
        self._code = "\n".join(line[margin:] for _, line in inner).strip("\n").split("\n")
        if self._code == [""]:
            raise YamlDataError("no code stands below it, indented by two blanks", number)

    def document(self) -> GraphDocument:
        """Return the graph, once its last line was read."""
        check_references(self._records, tuple(self._nodes))
        if not self._nodes and not self._is_empty:
            raise YamlDataError(f"a graph without a node is written as {_EMPTY!r}", 1)
        if self._nodes and self._is_empty:
            raise YamlDataError(f"it has nodes, and says {_EMPTY!r}", self._records[0].line)
        facts = self._lists.get("facts", ())
        if unknown := sorted(set(facts) - {*_FACTS, "none"}):
            raise YamlDataError(f"'facts' names {unknown[0]!r}, which this release does not know")
        document = GraphDocument(
            nodes=tuple(self._nodes),
            modules=tuple(self.modules),
            state=tuple(self._state),
            code="\n".join(self._code),
            notes=tuple(self._notes),
            facts=facts,
            symbols=self._lists.get("symbols", ()),
        )
        return replace(document, cost=_read_costs(self._costs)) if self._costs else document


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_yaml_line(line: str, number: int) -> NodeRecord | ModuleRecord | StateRecord:
    record = _yaml(line, number)[0]
    record.line = number
    if "op" in record:
        return read_node(record)
    return read_state(record) if "value" in record else read_module(record)


def _yaml(text: str, number: int) -> list[Record]:
    try:
        data: list[Record] = read_yaml(text)
    except YamlDataError as error:
        raise YamlDataError(error.reason, number) from None
    if not isinstance(data, list) or not all(isinstance(each, Record) for each in data):
        raise YamlDataError("it is no record in braces", number)
    return data


def _read_costs(lines: list[_Numbered]) -> CostBlock | None:
    number = lines[0][0]
    data = Record(cost=_yaml("\n".join(f"- {line}" for _, line in lines), number))
    try:
        return read_cost(data)
    except YamlDataError as error:
        raise YamlDataError(error.reason, lines[min((error.line or 1) - 1, len(lines) - 1)][0]) from None


def _read_node(line: str, number: int) -> NodeRecord:
    head, *options = split_at(line, ";", number)
    told = _options(options, ("name", "effects", "scope", "meta", "name_from"), number)
    head, value = _with_value(head.strip(), number)
    if head == "return" or head.startswith("return "):
        args, kwargs = _arguments(head.removeprefix("return").strip(), number)
        name, op, target = told.pop("name", "output"), "output", "output"
    elif (found := _INPUT.match(head)) is not None:
        name, op, target, kwargs = found[2] or found[1], "placeholder", found[1], ()
        args = _default(head[found.end() :].strip(), number)
    elif (made := _NODE.match(head)) is not None:
        name, (op, target, args, kwargs) = made[1], _called(made[2].strip(), number)
    else:
        raise YamlDataError(
            "it is none of: input NAME, %NAME = TARGET(...), return ..., module, parameter, buffer, constant, note, "
            "symbols, facts, cost, code",
            number,
        )
    if "name" in told:
        raise YamlDataError("only the line `return` has a `name:`; any other begins with its name", number)
    effects = tuple(each.strip() for each in split_at(told["effects"], ",", number)) if "effects" in told else ()
    meta_args, meta = _arguments(told.get("meta", ""), number)
    if meta_args:
        raise YamlDataError(f"the metadata {meta_args[0]!r} has no name, as in `meta: tag=1`", number)
    return NodeRecord(
        name, op, target, args, kwargs, value, effects, told.get("scope"), None, meta, told.get("name_from")
    )


def _called(text: str, number: int) -> tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Read what a node calls: opcode, target, arguments."""
    found = _CALLED.match(text)
    if found is None:
        raise YamlDataError(
            f"{text[:60]!r} calls nothing: a call is TARGET(...), self.PATH(...) or %NAME.METHOD(...)", number
        )
    own, receiver, dot, target = found.groups()
    rest = text[found.end() :].strip()
    if not rest and own:
        return "get_attr", target, (), ()
    if not (rest.startswith("(") and rest.endswith(")")):
        raise YamlDataError(f"expected (...) behind {text[: found.end()]!r}, got {rest[:60]!r}", number)
    args, kwargs = _arguments(rest[1:-1], number)
    if own:
        return "call_module", target, args, kwargs
    if receiver:
        return "call_method", target, (f"%{receiver}", *args), kwargs
    return "call_method" if dot else "call_function", target, args, kwargs


def _default(text: str, number: int) -> tuple[str, ...]:
    if not text:
        return ()
    if not text.startswith("=") or not text[1:].strip():
        raise YamlDataError(f"expected `= DEFAULT`, `: VALUE` or nothing behind the input, got {text[:60]!r}", number)
    return (tidy_text(text[1:], number),)


def _with_value(head: str, number: int) -> tuple[str, str | None]:
    """Split what a line makes from its value, which stands behind the last colon outside of brackets."""
    first, *values = split_at(head, ":", number)
    if not values:
        return head, None
    if len(values) > 1 or not values[0].strip():
        raise YamlDataError("expected one value behind one colon, such as `: float32[2, 4]`", number)
    return first.strip(), tidy_text(values[0], number)


def _arguments(text: str, number: int) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    args: list[str] = []
    kwargs: dict[str, str] = {}
    for item in split_at(text, ",", number) if text.strip() else []:
        keyword = _KEYWORD.match(item.strip())
        if not item.strip():
            raise YamlDataError("an argument is missing at a comma", number)
        if keyword is None and kwargs:
            raise YamlDataError(f"the argument {item.strip()!r} stands behind one with a keyword", number)
        if keyword is None:
            args.append(tidy_text(item, number))
        elif keyword[1] in kwargs:
            raise YamlDataError(f"the keyword {keyword[1]!r} stands there twice", number)
        else:
            kwargs[keyword[1]] = tidy_text(item.strip()[keyword.end() :], number)
    return tuple(args), tuple(kwargs.items())


def _options(parts: list[str], known: tuple[str, ...], number: int) -> dict[str, str]:
    """Read what stands behind semicolons: `key: text`, or a word alone."""
    told: dict[str, str] = {}
    for part in parts:
        key, colon, text = part.strip().partition(":")
        if key not in known or (colon and not text.strip()):
            raise YamlDataError(f"{part.strip()[:60]!r} is none of: {', '.join(known)}", number)
        if key in told:
            raise YamlDataError(f"{key!r} stands there twice", number)
        told[key] = text.strip()
    return told


def _read_module(line: str, number: int) -> ModuleRecord:
    head, *options = split_at(line, ";", number)
    found, rest = _MODULE.match(head), head.rstrip()
    if found is None or not rest.endswith(")"):
        raise YamlDataError("a module is written as `module PATH = CLASS(name=value, ...)`", number)
    args, config = _arguments(rest[found.end() + 1 : -1], number)
    if args:
        raise YamlDataError(f"the value {args[0]!r} of the module has no name, as in `bias=True`", number)
    told = _options(options, ("training", "not training", "same_as", "name_from"), number)
    training = True if "training" in told else False if "not training" in told else None
    return ModuleRecord(found[1], found[2], config, training, told.get("same_as"), None, told.get("name_from"))


def _read_state(line: str, number: int) -> StateRecord:
    head, *options = split_at(line, ";", number)
    found = _STATE.match(head)
    if found is None:
        raise YamlDataError("a tensor is written as `parameter PATH : float32[2, 4]`, or buffer, or constant", number)
    told = _options(options, ("requires_grad", "not persistent", "same_as", "storage", "name_from"), number)
    value, equals, content = head[found.end() :].partition(" = ")
    if not value.strip() or value.startswith("="):
        raise YamlDataError("it does not say what the tensor is, as in `: float32[2, 4]`", number)
    return StateRecord(
        found[2],
        found[1],
        tidy_text(value, number),
        "requires_grad" in told,
        "not persistent" not in told,
        told.get("same_as"),
        tidy_text(content, number) if equals else None,
        told.get("storage"),
        told.get("name_from"),
    )


_READERS: dict[str, Callable[[str, int], NodeRecord | ModuleRecord | StateRecord]] = {
    "module": _read_module,
    **dict.fromkeys(("parameter", "buffer", "constant"), _read_state),
}
