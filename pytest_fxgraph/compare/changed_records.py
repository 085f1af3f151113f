"""The differing records of two aligned documents, and their differing fields: the one place that asks deepdiff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from deepdiff import DeepDiff

# Values are texts, None, or lists and mappings of texts. Numbers are texts, because to Python 1 equals 1.0 and True.
TextRecord = Mapping[str, Any]

# Limit per section. deepdiff needs 0.4 ms per record, and nobody reads thousands.
MOST_RECORDS = 2600

# Fields in the order of reports.
_FIELDS = (
    *("default", "target", "args", "kwargs", "meta", "kind", "config", "training", "value", "class"),
    *("requires_grad", "persistent", "same_as", "storage", "content", "graph", "notes"),
)


class FieldChange(NamedTuple):
    """One field with two texts; an empty text stands for a missing field."""

    field: str
    expected: str
    obtained: str


# Key: the paths of the inner graphs around the record, its section and its key.
FieldChanges = Mapping[tuple[str, ...], Sequence[FieldChange]]


class ChangedRecords:
    """Differing records of two documents by section ("nodes", "modules", "state", "graphs") and key.

    Aligned records have the same key on both sides. "graphs" holds the same sections for inner graphs, and "notes" is a
    list.
    """

    def __init__(self, graph_paths: tuple[str, ...] = (), outermost: ChangedRecords | None = None) -> None:
        self.expected: dict[str, Any] = {}
        self.obtained: dict[str, Any] = {}
        self.omitted: list[str] = []  # keys of records that were left out
        self.has_pairs = False  # of the outermost: whether any record, also of an inner graph, is on both sides
        self._outermost = outermost or self
        self._graph_paths = graph_paths

    def add(self, section: str, key: str, expected: TextRecord | None, obtained: TextRecord | None) -> None:
        """Add a differing record, or only note its key after MOST_RECORDS; None stands for a missing record."""
        if max(len(side.get(section, ())) for side in (self.expected, self.obtained)) >= MOST_RECORDS:
            self.omitted.append(key)
            return
        if expected is not None and obtained is not None:
            self._outermost.has_pairs = True
        for side, record in ((self.expected, expected), (self.obtained, obtained)):
            of_section = side.setdefault(section, {})
            if record is not None:
                of_section[key] = record

    def add_notes(self, expected: Sequence[str], obtained: Sequence[str]) -> None:
        """Add the notes of both documents, if they differ."""
        if expected != obtained:
            self.expected["notes"], self.obtained["notes"] = list(expected), list(obtained)
            self._outermost.has_pairs = True

    def add_graph(self, path: str) -> ChangedRecords:
        """Add an inner graph and return its records."""
        inner = ChangedRecords((*self._graph_paths, path), self._outermost)
        for side, records in ((self.expected, inner.expected), (self.obtained, inner.obtained)):
            side.setdefault("graphs", {})[path] = records
        return inner

    def of_section(self, section: str) -> dict[str, tuple[TextRecord | None, TextRecord | None]]:
        """Map the keys of a section to both records, the expected document's keys first."""
        expected, obtained = self.expected.get(section, {}), self.obtained.get(section, {})
        return {key: (expected.get(key), obtained.get(key)) for key in [*expected, *obtained]}

    def fields_of(self, section: str, key: str, fields: FieldChanges) -> Sequence[FieldChange]:
        """Return the changed fields of one record from the result of `changed_fields`."""
        return fields.get((*self._graph_paths, section, key), ())


def changed_fields(records: ChangedRecords) -> FieldChanges:
    """Find every field that differs between two aligned records, by one `DeepDiff` over all.

    Fields are named as a reader would write them: `target`, `args[1]`, `kwargs['dim']`, `config.stride`, `notes[0]`.
    """
    # Added and removed records have no fields to compare, so deepdiff is not imported for them.
    if not records.has_pairs:
        return {}
    found: dict[tuple[str, ...], list[FieldChange]] = {}
    for items in deep_diff(records.expected, records.obtained, view="tree").values():
        for item in items:
            key, field = _key_and_field(item.path(output_format="list"))
            if field:
                found.setdefault(key, []).append(FieldChange(field, _text(item.t1), _text(item.t2)))
    for changes in found.values():
        changes.sort(key=lambda change: (_FIELDS.index(change.field.replace(".", "[").partition("[")[0]), change.field))
    return found


def deep_diff(expected: Mapping[str, Any], obtained: Mapping[str, Any], *, view: str = "text") -> DeepDiff:
    """Compare records by deepdiff; the result is a `DeepDiff` in deepdiff's view of that name, "text" or "tree"."""
    # Imported here, so that a run without a mismatch never pays for it.
    from deepdiff import DeepDiff

    # With a threshold, deepdiff reports two mappings with few common keys as one change. With private variables
    # ignored, it skips keys that begin with two underscores, and nodes, modules and keywords may have these names.
    return DeepDiff(expected, obtained, view=view, threshold_to_diff_deeper=0, ignore_private_variables=False)


def _key_and_field(path: list[Any]) -> tuple[tuple[str, ...], str]:
    """Split deepdiff's path into the key of a record and the name of the field; "" for a record as a whole."""
    graph_paths: list[str] = []
    while path[0] == "graphs":
        graph_paths.append(path[1])
        path = path[2:]
    section, key, *parts = path
    if section == "notes":
        return (*graph_paths, section, ""), f"notes[{key}]"
    if parts[:1] == ["config"]:
        return (*graph_paths, section, key), f"config.{parts[1]}"
    return (*graph_paths, section, key), "".join(parts[:1]) + "".join(f"[{part!r}]" for part in parts[1:])


def _text(value: object) -> str:
    # deepdiff marks a missing value by an object of its own.
    return value if isinstance(value, str) else ""
