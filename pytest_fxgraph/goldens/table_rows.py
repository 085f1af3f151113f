"""The rows of a table and the text of its file: one line a row, sorted, so that two branches merge without conflict."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_fxgraph.document.model import YamlDataError
from pytest_fxgraph.document.yaml_reader import Items, Record, read_yaml
from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.report.printable import aligned

Values = Mapping[str, int | float]
KEYS = ("row", "test")  # of a line; no column may have these names

_FORMAT = 1
_REMEDY = "restore it from version control, or remove it and write it anew with pytest --fx-update-golden"


@dataclass(frozen=True)
class Row:
    """The numbers of one model, and the test that they belong to."""

    name: str
    test: str  # the id of the test within its file
    values: Values


def is_table(text: str) -> bool:
    """Tell a table from goldens and from YAML of other people. Comments before the table do not count."""
    return re.match(r"\ufeff?(?:#[^\n]*\n)*table: ", text) is not None


def encode_table(rows: Iterable[Row]) -> str:
    """Write rows as the text of a file."""
    lines = [f"table: {_FORMAT}", "rows:"]
    for row in sorted(rows, key=lambda row: row.name):
        fields = [f"row: {_quoted(row.name)}"]
        fields += [f"test: {_quoted(row.test)}"] if row.test != row.name else []
        fields += [
            f"{_quoted(column)}: {number_text(row.values[column], quoted=True)}" for column in sorted(row.values)
        ]
        lines.append(f"- {{{', '.join(fields)}}}")
    return "\n".join([*lines, "end: true", ""])


def digest_of(row: Row | None) -> str | None:
    """Return the digest of a row, None without a row."""
    return None if row is None else golden_digest(encode_table([row]).encode("utf-8", "surrogatepass"))


def decode_table(text: str, origin: str) -> dict[str, Row]:
    """Read the rows of a table by name; `origin` names the file in errors.

    Raises GoldenFormatError with the line and the reason if it is no table, was cut off, or has a row twice.
    """
    if any(line.startswith(("<<<<<<< ", ">>>>>>> ")) for line in text.splitlines()):
        raise GoldenFormatError(
            f"cannot read the table {origin}: it holds a merge conflict; keep the rows of both sides"
        )
    try:
        return _rows(read_yaml(text))
    except YamlDataError as error:
        place = f"{origin}, line {error.line}" if error.line else origin
        raise GoldenFormatError(f"cannot read the table {place}: {error.reason}; {_REMEDY}") from None


def _rows(data: object) -> dict[str, Row]:
    if not isinstance(data, Record) or data.get("table") != _FORMAT:
        raise YamlDataError(f"it does not begin with `table: {_FORMAT}`")
    if data.get("end") is not True:
        raise YamlDataError("it was cut off: its last line is not `end: true`")
    rows: dict[str, Row] = {}
    items = data.get("rows")
    for item in items if isinstance(items, Items) else []:
        if not isinstance(item, Record) or not isinstance(item.get("row"), str):
            raise YamlDataError("an item of 'rows' has no row: it names no model", data.line)
        name = str(item.pop("row"))
        test = str(item.pop("test", name))
        if name in rows:
            raise YamlDataError(f"the row {name!r} stands there twice", item.line)
        rows[name] = Row(name, test, {column: _number(name, column, item[column], item.line) for column in item})
        if not rows[name].values:
            raise YamlDataError(f"the row {name!r} is empty", item.line)
    if not rows:
        raise YamlDataError("it has no row, and every comparison with it would say nothing")
    return rows


def _number(row: str, column: str, value: object, line: int) -> int | float:
    if isinstance(value, bool):
        raise YamlDataError(f"column {column!r} of row {row!r} is {value}, which is no number", line)
    if isinstance(value, int):
        return value
    try:
        number = float(str(value))
    except ValueError:
        raise YamlDataError(f"column {column!r} of row {row!r} is {value!r}, which is no number", line) from None
    if not math.isfinite(number):
        raise YamlDataError(f"column {column!r} of row {row!r} is {value!r}; a table holds finite numbers", line)
    return number


def rows_if_table(content: bytes, origin: str) -> dict[str, Row] | None:
    """Read the content of a file if it is a table; None for anything else.

    Raises GoldenFormatError for a table that is damaged.
    """
    text = content.decode("utf-8", "replace").replace("\r\n", "\n")
    return decode_table(text, origin) if is_table(text) else None


def table_lines(rows: Mapping[str, Row]) -> list[str]:
    """Return a table as people read it: the columns one below the other."""
    columns = sorted({column for row in rows.values() for column in row.values})
    head = ["row", *columns]
    body = [
        [name, *(number_text(row.values[column]) if column in row.values else "-" for column in columns)]
        for name, row in sorted(rows.items())
    ]
    return aligned([head, *body])


def number_text(value: float, *, quoted: bool = False) -> str:
    """Write a number: whole ones as they are, others so that they are read back bit by bit."""
    if isinstance(value, int):
        return str(value) if value >= 0 or not quoted else f"'{value}'"
    return f"'{value!r}'" if quoted else f"{value:.6g}"


def _quoted(text: str) -> str:
    if text.isidentifier() and text.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null"):
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'
