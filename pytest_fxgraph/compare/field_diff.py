"""Which fields of two records of texts differ: the one place that asks deepdiff."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Values are texts, absent texts, or lists and mappings of texts; never numbers, whose equality is not ours.
TextRecord = Mapping[str, Any]


@dataclass(frozen=True)
class FieldChange:
    """One field whose text differs; an empty text means that the field is not there."""

    field: str
    expected: str
    obtained: str


def changed_fields(expected: TextRecord, obtained: TextRecord) -> list[FieldChange]:
    """List the fields that differ, named as a reader would write them: `target`, `args[1]`, `kwargs['dim']`."""
    if expected == obtained:
        return []
    # Here and not above: a run in which everything matches never pays for this import.
    from deepdiff import DeepDiff

    # Without the threshold, two mappings with few keys in common would be one change as a whole.
    found = DeepDiff(expected, obtained, view="tree", threshold_to_diff_deeper=0)
    changes = [_field_change(item) for items in found.values() for item in items]
    order = list(dict.fromkeys([*expected, *obtained]))
    return sorted(changes, key=lambda change: (order.index(_first_word(change.field)), change.field))


def _field_change(item: Any) -> FieldChange:
    first, *rest = item.path(output_format="list")
    name = str(first) + "".join(f"[{part!r}]" for part in rest)
    return FieldChange(name, _text(item.t1), _text(item.t2))


def _text(value: object) -> str:
    # deepdiff marks what is absent by an object of its own.
    return value if isinstance(value, str) else ""


def _first_word(field: str) -> str:
    return field.partition("[")[0]
