from __future__ import annotations

import json
from pathlib import Path

from fixtures.edits import difference_of, edit
from pytest_fxgraph.compare.difference import CLASSES, Change, Difference
from pytest_fxgraph.report.change_data import change_data, edit_data

SCHEMA = json.loads(Path(__file__, "../../../docs/report.schema.json").resolve().read_text(encoding="utf-8"))
CHANGE = Change(
    "arguments", "changed", "node", "relu_1", "args[1]", "1", "2", scope="layers.0", source="net.py:12: x = relu(y: 1)"
)


def test_a_change_is_told_field_by_field():
    (data,) = change_data(Difference("structure", (CHANGE,)), "key")

    assert data == {
        "class": "arguments",
        "action": "changed",
        "subject": "node",
        "node": "relu_1",
        "expected_node": None,
        "path": None,
        "field": "args[1]",
        "from": "1",
        "to": "2",
        "operator": None,
        "module": "layers.0",
        "file": "net.py",
        "line": 12,
        "text": "x = relu(y: 1)",
        "remark": None,
        "cluster": "key",
    }


def test_of_a_module_the_node_that_calls_it_is_named_beside_its_path():
    change = Change("arguments", "changed", "module", "conv", "config.stride", "(1, 1)", "(2, 2)", node="conv_1")

    (data,) = change_data(Difference("structure", (change,)), "")

    assert (data["node"], data["path"], data["file"], data["line"]) == ("conv_1", "conv", None, None)


def test_what_is_told_is_what_the_schema_names():
    (data,) = change_data(Difference("structure", (CHANGE,)), "")
    schema = SCHEMA["$defs"]["change"]

    assert set(data) == set(schema["properties"]) == set(schema["required"])
    assert tuple(schema["properties"]["class"]["enum"]) == CLASSES


def test_nothing_is_told_of_documents_that_match():
    assert change_data(Difference("exact"), "") == ()


def test_an_edit_names_its_places_and_its_changes_by_position():
    found = difference_of([edit("one", sources=[]), edit("two", ["a.0", "a.1"], [None, None])], rest=1)

    one, two = edit_data(found)

    assert (one["title"], one["changes"]) == ("one", [])
    assert (two["kind"], two["text"], two["title"]) == ("replaced", "two", "two at 2 places: a.0, a.1")
    assert two["places"][1] == {"where": "a.1", "expected": [], "obtained": []}
    assert [found.changes[position] for position in two["changes"]] == [*found.edits[1].changes]
    assert set(two) == set(SCHEMA["$defs"]["edit"]["properties"]) == set(SCHEMA["$defs"]["edit"]["required"])
    assert set(two["places"][0]) == set(SCHEMA["$defs"]["place"]["properties"])
