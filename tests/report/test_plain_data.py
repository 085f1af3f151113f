from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from pytest_fxgraph.report.plain_data import record_of


@dataclass(frozen=True)
class Inner:
    number: int
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    name: str
    inner: tuple[Inner, ...] = ()
    one: Inner | None = None
    ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_done: bool = False
    other: Any = None


def test_a_record_is_the_same_after_json_carried_it():
    record = Outer("a", (Inner(1), Inner(2, 3.0)), Inner(4, 1), {"f": ("x", "y")}, True, [{"z": 1}])

    assert record_of(Outer, json.loads(json.dumps(asdict(record)))) == record
    assert record_of(Outer, {"name": "a", "unknown": 1}) == Outer("a")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "expected names and values, got 3"),
        ({"name": 3}, "expected a text, got 3"),
        ({"name": "a", "is_done": 1}, "expected true or false, got 1"),
        ({"name": "a", "inner": "text"}, "expected a list, got 'text'"),
        ({"name": "a", "inner": [{"number": True}]}, "expected a whole number, got True"),
        ({"name": "a", "one": {"number": 1, "share": "x"}}, "expected a number, got 'x'"),
        ({"name": "a", "ids": {"f": [1]}}, "expected a text, got 1"),
    ],
)
def test_a_value_of_another_form_is_refused(data, words):
    with pytest.raises(ValueError, match=words):
        record_of(Outer, data)


def test_a_missing_field_is_named():
    with pytest.raises(KeyError, match="number"):
        record_of(Outer, {"name": "a", "one": {}})
