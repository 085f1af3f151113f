"""The text of a golden file back to a document; any other text is refused with its line and the reason."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_fxgraph.document.line_reader import SECTIONS
from pytest_fxgraph.document.model import FORMAT, MOST_BYTES, GraphDocument, YamlDataError
from pytest_fxgraph.document.text_reader import Line, read_sections
from pytest_fxgraph.document.yaml_reader import Record, read_yaml
from pytest_fxgraph.errors import GoldenFormatError, GoldenVersionError

REMEDY = "restore it from version control, or rewrite it with pytest --fx-update-golden"

_FORMAT_LINE = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n|---[ \t]*\n)*format: *(\d{1,9})[ \t]*(?:\n|\Z)")
_ANY_FORMAT = re.compile(r"^\W*format\W", re.MULTILINE)
_END_LINE = re.compile(r"^end: *true\b", re.MULTILINE)
_CUT_OFF = "it was cut off: its last line is not `end: true`"
_CONFLICT = re.compile(r"^(?:<{7} |>{7} )", re.MULTILINE)


def decode(text: str | bytes, origin: str) -> GraphDocument:
    """Read a golden file's text; `origin` names the file in errors. Line ends of Windows and a BOM are accepted.

    Raises GoldenFormatError with the line and the reason if it is no golden file, GoldenVersionError if its format is
    newer than this release.
    """
    try:
        return document_of(text)
    except YamlDataError as error:
        place = f"{origin}, line {error.line}" if error.line else origin
        family = GoldenVersionError if isinstance(error, _NewerFormatError) else GoldenFormatError
        remedy = error.remedy if isinstance(error, _NewerFormatError) else REMEDY
        raise family(f"cannot read the golden file {place}: {error.reason}; {remedy}") from None


def document_of(text: str | bytes) -> GraphDocument:
    """Read the text of a graph in the format of goldens, wherever it was kept. Raises YamlDataError."""
    return _decode(_clean(text))


class _NewerFormatError(YamlDataError):
    remedy = "upgrade pytest-fxgraph, or remove the file and record it with pytest --fx-update-golden"


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
    # The version comes first, because the rest of another format is not checked.
    first = _FORMAT_LINE.match(text)
    if first is not None:
        _check_version(int(first[1]))
    if conflict := _CONFLICT.search(text):
        raise YamlDataError("it holds a merge conflict", text.count("\n", 0, conflict.start()) + 1)
    if not text.strip():
        raise YamlDataError("it is empty")
    foreign = YamlDataError("it does not begin with `format:`, so it is no golden file of pytest-fxgraph")
    if not _ANY_FORMAT.search(text):
        raise foreign
    data = _read(text, is_golden=first is not None)
    if not isinstance(data, Record) or "format" not in data:
        raise foreign
    version = data.pop("format")
    if type(version) is not int:
        raise YamlDataError(f"its format is {version!r}, not a whole number", data.line)
    _check_version(version)
    return _document(data)


def _read(text: str, *, is_golden: bool) -> object:
    """Read YAML; for a file that was cut off name the cut, not its consequence."""
    try:
        return read_yaml(text)
    except YamlDataError:
        if not is_golden or _END_LINE.search(text):
            raise
        raise YamlDataError(_CUT_OFF) from None


def _check_version(version: int) -> None:
    if version > FORMAT:
        raise _NewerFormatError(f"it has format {version}, and this release reads format {FORMAT}")
    if version < FORMAT:
        raise YamlDataError(f"it has format {version}, and this release reads format {FORMAT} alone")


def _document(data: Record) -> GraphDocument:
    """Read the keys of a file: `names` says how it was written, and each other one holds lines."""
    _check_end(data)
    names = data.pop("names", None)
    if names not in (None, "traced"):
        raise YamlDataError("'names' is not 'traced'", data.lines["names"])
    sections: dict[str, list[Line]] = {}
    for key, text in data.items():
        if key != "graph" and key not in SECTIONS:
            raise YamlDataError(f"it has {key!r}, which format {FORMAT} does not know", data.lines[key])
        if not isinstance(text, str):
            raise YamlDataError(f"{key!r} is not a text below `{key}: |`", data.lines[key])
        first = data.lines[key] + 1
        sections[key] = list(enumerate(text.removesuffix("\n").split("\n"), first))
    document = read_sections(sections.pop("graph", []), sections)
    return replace(document, keeps_traced_names=names is not None)


def _check_end(data: Record) -> None:
    """Refuse a file that was cut off, or has something behind its end."""
    if data.get("end") is not True:
        raise YamlDataError(_CUT_OFF)
    last = next(reversed(data))
    if last != "end":
        raise YamlDataError(f"{last!r} stands behind `end: true`, which ends a golden", data.lines[last])
    del data["end"]
