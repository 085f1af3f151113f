from __future__ import annotations

from pytest_fxgraph.compare.field_diff import FieldChange, changed_fields


def test_fields_are_named_as_a_reader_would_write_them():
    expected = {"target": "f", "args": ["%x", "1"], "kwargs": {"dim": "1", "out": "%o"}}
    obtained = {"target": "g", "args": ["%x", "2"], "kwargs": {"dim": "2", "alpha": "3"}}

    assert changed_fields(expected, obtained) == [
        FieldChange("target", "f", "g"),
        FieldChange("args[1]", "1", "2"),
        FieldChange("kwargs['alpha']", "", "3"),
        FieldChange("kwargs['dim']", "1", "2"),
        FieldChange("kwargs['out']", "%o", ""),
    ]


def test_a_text_that_is_not_there_is_empty():
    assert changed_fields({"value": None}, {"value": "float32[2]"}) == [FieldChange("value", "", "float32[2]")]


def test_an_argument_more_is_one_change():
    assert changed_fields({"args": ["a", "b"]}, {"args": ["a", "n", "b"]}) == [FieldChange("args[1]", "", "n")]


def test_equal_records_have_no_changed_fields():
    assert changed_fields({"args": ["1.0"]}, {"args": ["1.0"]}) == []
