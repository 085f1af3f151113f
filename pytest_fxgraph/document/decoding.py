"""The text of a golden file back to a document; whatever is not one is refused with its line and the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pytest_fxgraph.document.costs import COUNTS, CostBlock, block_of
from pytest_fxgraph.document.literals import references
from pytest_fxgraph.document.model import (
    FACTS,
    FORMAT,
    MOST_BYTES,
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    StateRecord,
)
from pytest_fxgraph.document.yaml_reader import Items, Record, YamlDataError, read_yaml
from pytest_fxgraph.errors import GoldenFormatError, GoldenVersionError

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
STATE_KINDS = ("parameter", "buffer", "constant")
REMEDY = "restore it from version control, or rewrite it with pytest --fx-update-golden"

_FORMAT_LINE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|---[ \t]*\n)*format: *(\d{1,9})[ \t]*(?:\n|\Z)")
_ANY_FORMAT = re.compile(r"^\W*format\W", re.MULTILINE)
_END_LINE = re.compile(r"^end: *true\b", re.MULTILINE)
_CUT_OFF = "it was cut off: its last line is not `end: true`"
_CONFLICT = re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE)
_DOCUMENT_KEYS = {"nodes", "modules", "state", "notes", "facts", "symbols", "code"}
_LATER_FORMATS = {"names", "cost", "end"}  # keys of the outermost graph that format 1 has not

T = TypeVar("T")


def decode(text: str | bytes, origin: str) -> GraphDocument:
    """Read a golden file's text; `origin` names the file in errors. Line ends of Windows and a BOM are accepted.

    Raises GoldenFormatError with the line and the reason if it is no golden file, GoldenVersionError if its format is
    newer than this release.
    """
    try:
        return _decode(_clean(text))
    except YamlDataError as error:
        place = f"{origin}, line {error.line}" if error.line else origin
        family = GoldenVersionError if isinstance(error, _NewerFormatError) else GoldenFormatError
        remedy = error.remedy if isinstance(error, _NewerFormatError) else REMEDY
        raise family(f"cannot read the golden file {place}: {error.reason}; {remedy}") from None


def format_of(text: str) -> int | None:
    """Return the format that the beginning of a golden's text names; None if it names none."""
    first = _FORMAT_LINE.match(text)
    return None if first is None else int(first[1])


class _NewerFormatError(YamlDataError):
    remedy = "upgrade pytest-fxgraph, or rewrite the file with pytest --fx-update-golden"


def _clean(text: str | bytes) -> str:
    if len(text) > MOST_BYTES:
        raise YamlDataError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    whole = _decoded(text) if isinstance(text, bytes) else text
    return whole.removeprefix("\ufeff").replace("\r\n", "\n")


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise YamlDataError(f"it is not UTF-8 text (byte {error.start}: {error.reason})", line) from None


def _decode(text: str) -> GraphDocument:
    # The version comes first: what else a newer format holds is not ours to judge.
    version = format_of(text)
    if version is not None:
        _check_version(version)
    if conflict := _CONFLICT.search(text):
        raise YamlDataError("it holds a merge conflict", text.count("\n", 0, conflict.start()) + 1)
    if not text.strip():
        raise YamlDataError("it is empty")
    foreign = YamlDataError("it does not begin with `format:`, so it is no golden file of pytest-fxgraph")
    if not _ANY_FORMAT.search(text):
        raise foreign
    data = _read(text, version)
    if not isinstance(data, Record) or "format" not in data:
        raise foreign
    version = data.pop("format")
    if type(version) is not int:
        raise YamlDataError(f"its format is {version!r}, not a whole number", data.line)
    _check_version(version)
    return _outermost_document(data, version)


def _read(text: str, version: int | None) -> Any:
    """Read YAML; of what was cut off say that, in place of what the cut made of it."""
    try:
        return read_yaml(text)
    except YamlDataError:
        if version is None or version == 1 or _END_LINE.search(text):
            raise
        raise YamlDataError(_CUT_OFF) from None


def _check_version(version: int) -> None:
    if version > FORMAT:
        raise _NewerFormatError(f"it has format {version}, and this release reads formats up to {FORMAT}")
    if version < 1:
        raise YamlDataError(f"it has format {version}, which never existed")


def _outermost_document(data: Record, version: int) -> GraphDocument:
    """Read a whole file, whose keys other than those of a graph say how it was written."""
    if version == 1:
        _check_keys(data, "a graph", {"nodes", "code"}, _DOCUMENT_KEYS, version)
        return _document(data)
    _check_keys(data, "a graph", {"nodes"}, _DOCUMENT_KEYS | _LATER_FORMATS)
    _check_end(data)
    names = data.pop("names", None)
    if names not in (None, "traced"):
        _refuse(data, f"'names' is {_shown(names)}, not 'traced'")
    cost = read_cost(data)
    return replace(_document(data), keeps_traced_names=names is not None, cost=cost)


def read_cost(data: Record) -> CostBlock | None:
    """Take the block of level `cost` out of the data; its first line tells of the whole graph."""
    if "cost" not in data:
        return None
    lines = _items(data, "cost")
    del data["cost"]
    if not lines or not all(isinstance(line, Record) for line in lines):
        _refuse(lines, "'cost' is not a sequence of mappings, the first of which tells of the whole graph")
    whole, *modules = lines
    required = {"whole", *COUNTS, "peak_activation", "peak_at"}
    _check_keys(whole, "the costs of the whole graph", required, required | {"uncounted"})
    for line in modules:
        _check_keys(line, "the costs of a module", {"module", *COUNTS}, {"module", *COUNTS})
        _text(line, "module")
    _text(whole, "peak_at")
    _texts(whole, "uncounted")
    for line in lines:
        for key in (*COUNTS, *(("peak_activation",) if line is whole else ())):
            if type(line[key]) is not int:
                _refuse(line, f"{key!r} is {_shown(line[key])}, not a whole number")
    return block_of(whole, modules)


def _check_end(data: Record) -> None:
    """Refuse a file that was cut off, or has something behind its end."""
    last = next(reversed(data))
    if data.get("end") is not True:
        raise YamlDataError(_CUT_OFF)
    if last != "end":
        _refuse(data, f"{last!r} stands behind `end: true`, which ends a golden")
    del data["end"]


def _document(data: Record) -> GraphDocument:
    _check_keys(data, "a graph", {"nodes"}, _DOCUMENT_KEYS)
    nodes = _records(data, "nodes", read_node)
    check_references(data["nodes"], nodes)
    return GraphDocument(
        nodes=nodes,
        modules=_records(data, "modules", read_module),
        state=_records(data, "state", read_state),
        code=_code(data),
        notes=_texts(data, "notes"),
        facts=_facts(data),
        symbols=_texts(data, "symbols"),
    )


def _facts(data: Record) -> tuple[str, ...]:
    facts = _texts(data, "facts")
    if unknown := set(facts) - set(FACTS):
        _refuse(data, f"'facts' names {_listed(unknown)}, which format {FORMAT} does not know")
    return facts


def read_node(data: Record) -> NodeRecord:
    """Read one node of a golden. Raises YamlDataError, as the other readers of records do."""
    allowed = {"name", "op", "target", "args", "kwargs", "value", "effects", "scope", "meta", "name_from"}
    _check_keys(data, "a node", {"name", "op", "target"}, allowed)
    return NodeRecord(
        name=_text(data, "name"),
        op=_one_of(data, "op", OPS),
        target=_text(data, "target"),
        args=_texts(data, "args"),
        kwargs=_pairs(data, "kwargs"),
        value=_optional_text(data, "value"),
        effects=_texts(data, "effects"),
        scope=_optional_text(data, "scope"),
        meta=_pairs(data, "meta"),
        name_from=_optional_text(data, "name_from"),
    )


def read_module(data: Record) -> ModuleRecord:
    """Read one module of a golden, with the graph inside it."""
    allowed = {"path", "kind", "config", "training", "same_as", "graph", "name_from"}
    _check_keys(data, "a module", {"path", "kind"}, allowed)
    graph = data.get("graph")
    if graph is not None and not isinstance(graph, Record):
        _refuse(data, f"the graph of module {data['path']!r} is not a mapping")
    return ModuleRecord(
        path=_text(data, "path"),
        kind=_text(data, "kind"),
        config=_pairs(data, "config"),
        training=_truth(data, "training") if "training" in data else None,
        same_as=_optional_text(data, "same_as"),
        graph=None if graph is None else _document(graph),
        name_from=_optional_text(data, "name_from"),
    )


def read_state(data: Record) -> StateRecord:
    """Read one parameter, buffer or constant of a golden."""
    allowed = {"path", "kind", "value", "requires_grad", "persistent", "same_as", "content", "storage", "name_from"}
    _check_keys(data, "a parameter, buffer or constant", {"path", "kind", "value"}, allowed)
    return StateRecord(
        path=_text(data, "path"),
        kind=_one_of(data, "kind", STATE_KINDS),
        value=_text(data, "value"),
        requires_grad=_truth(data, "requires_grad") if "requires_grad" in data else False,
        persistent=_truth(data, "persistent") if "persistent" in data else True,
        same_as=_optional_text(data, "same_as"),
        content=_optional_text(data, "content"),
        storage=_optional_text(data, "storage"),
        name_from=_optional_text(data, "name_from"),
    )


def _code(data: Record) -> str:
    code = data.get("code")
    if isinstance(code, Items):
        return "\n".join(_texts(data, "code"))
    return _text(data, "code") if "code" in data else ""


def _check_keys(data: Record, what: str, required: set[str], allowed: set[str], version: int = FORMAT) -> None:
    if missing := required - data.keys():
        _refuse(data, f"{what} lacks {_listed(missing)}")
    if unknown := data.keys() - allowed:
        _refuse(data, f"{what} has {_listed(unknown)}, which format {version} does not know")


def check_references(data: Sequence[Record], nodes: tuple[NodeRecord, ...]) -> None:
    """Refuse a graph in which two nodes have one name, or one reads what no node before it makes."""
    known: set[str] = set()
    for record, node in zip(data, nodes, strict=True):
        for text in (*node.args, *(value for _, value in (*node.kwargs, *node.meta))):
            for name in references(text):
                if name not in known:
                    _refuse(record, f"node {node.name!r} reads %{name}, which no node before it makes")
        if node.name in known:
            _refuse(record, f"two nodes are named {node.name!r}")
        known.add(node.name)


def _records(data: Record, key: str, read: Callable[[Record], T]) -> tuple[T, ...]:
    items = _items(data, key)
    for item in items:
        if not isinstance(item, Record):
            _refuse(items, f"an item of {key!r} is not a mapping")
    return tuple([read(item) for item in items])


def _items(data: Record, key: str) -> Items:
    items = data.get(key, Items())
    if not isinstance(items, Items):
        _refuse(data, f"{key!r} is not a sequence")
    return items


def _texts(data: Record, key: str) -> tuple[str, ...]:
    items = _items(data, key)
    for item in items:
        if type(item) is not str:
            _refuse(data, f"{key!r} holds {_shown(item)}, which is not a text")
    return tuple(items)


def _pairs(data: Record, key: str) -> tuple[tuple[str, str], ...]:
    pairs: Any = data.get(key, {})
    if not isinstance(pairs, Mapping):
        _refuse(data, f"{key!r} is not a mapping")
    for value in pairs.values():
        if type(value) is not str:
            _refuse(data, f"{key!r} holds {_shown(value)}, which is not a text")
    return tuple(pairs.items())


def _text(data: Record, key: str) -> str:
    value = data[key]
    if type(value) is not str:
        _refuse(data, f"{key!r} is {_shown(value)}, which is not a text")
    return value


def _optional_text(data: Record, key: str) -> str | None:
    return _text(data, key) if key in data else None


def _truth(data: Record, key: str) -> bool:
    value = data[key]
    if type(value) is not bool:
        _refuse(data, f"{key!r} is {_shown(value)}, neither true nor false")
    return value


def _one_of(data: Record, key: str, known: tuple[str, ...]) -> str:
    value = _text(data, key)
    if value not in known:
        _refuse(data, f"{key!r} is {_shown(value)}, not one of {', '.join(known)}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Record | Items):
        return "a mapping" if isinstance(value, Record) else "a sequence"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _listed(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)[:5])


def _refuse(data: Record | Items, reason: str) -> NoReturn:
    raise YamlDataError(reason, data.line)
