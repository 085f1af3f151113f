from __future__ import annotations

import pickle

from fixtures.documents import document
from pytest_fxgraph.compare.changed_records import MOST_RECORDS, ChangedRecords, FieldChange, changed_fields
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.model import ModuleRecord, StateRecord


def fields(expected, obtained):
    records = ChangedRecords()
    records.add("nodes", "n", expected, obtained)
    return list(records.fields_of("nodes", "n", changed_fields(records)))


def test_fields_are_named_as_a_reader_would_write_them():
    expected = {"target": "f", "args": ["%x", "1"], "kwargs": {"dim": "1", "out": "%o"}}
    obtained = {"target": "g", "args": ["%x", "2"], "kwargs": {"dim": "2", "alpha": "3"}}

    assert fields(expected, obtained) == [
        FieldChange("target", "f", "g"),
        FieldChange("args[1]", "1", "2"),
        FieldChange("kwargs['alpha']", "", "3"),
        FieldChange("kwargs['dim']", "1", "2"),
        FieldChange("kwargs['out']", "%o", ""),
    ]


def test_a_parameter_of_a_module_is_named_by_a_dot():
    assert fields({"config": {"stride": "1"}}, {"config": {"stride": "2"}}) == [FieldChange("config.stride", "1", "2")]


def test_a_text_that_is_not_there_is_empty():
    assert fields({"value": None}, {"value": "float32[2]"}) == [FieldChange("value", "", "float32[2]")]


def test_an_argument_more_is_one_change():
    assert fields({"args": ["a", "b"]}, {"args": ["a", "n", "b"]}) == [FieldChange("args[1]", "", "n")]


def test_names_that_begin_with_two_underscores_are_compared():
    records = ChangedRecords()
    records.add("nodes", "__n", {"kwargs": {"__dim": "1"}}, {"kwargs": {"__dim": "2"}})

    found = changed_fields(records)

    assert records.fields_of("nodes", "__n", found) == [FieldChange("kwargs['__dim']", "1", "2")]


def test_a_record_that_one_side_lacks_has_no_changed_fields():
    assert fields({"target": "f"}, None) == []
    assert fields(None, {"target": "f"}) == []


def test_notes_are_named_by_their_place():
    records = ChangedRecords()
    records.add_notes(("a", "b"), ("a", "c"))

    assert records.fields_of("notes", "", changed_fields(records)) == [FieldChange("notes[1]", "b", "c")]


def test_equal_notes_are_left_out():
    records = ChangedRecords()
    records.add_notes(("a",), ("a",))

    assert (records.expected, records.obtained) == ({}, {})


def test_records_of_nested_graphs_are_told_apart_by_the_paths_of_the_graphs():
    records = ChangedRecords()
    inner = records.add_graph("sub")
    innermost = inner.add_graph("sub")
    records.add("nodes", "n", {"target": "a"}, {"target": "b"})
    inner.add("nodes", "n", {"target": "c"}, {"target": "d"})
    innermost.add_notes(("e",), ("f",))

    found = changed_fields(records)

    assert records.fields_of("nodes", "n", found) == [FieldChange("target", "a", "b")]
    assert inner.fields_of("nodes", "n", found) == [FieldChange("target", "c", "d")]
    assert innermost.fields_of("notes", "", found) == [FieldChange("notes[0]", "e", "f")]
    assert inner.fields_of("notes", "", found) == ()


def test_records_beyond_the_bound_are_counted():
    records = ChangedRecords()
    for number in range(MOST_RECORDS + 3):
        records.add("state", f"w{number}", {"kind": "buffer"}, None)

    assert len(records.of_section("state")) == MOST_RECORDS
    assert len(records.omitted) == 3


EXPECTED = document(
    "%x = input x\n%a = torch.sum(%x, dim=0)\n%b = self.act(%a)\n%c = f(%b)\nreturn %c",
    modules=(ModuleRecord("act", "torch.nn.ELU", (("alpha", "1.0"),)),),
    state=(StateRecord("w", "buffer", "float32[2]"),),
    notes=("x has 2 dimensions",),
)
OBTAINED = document(
    "%x = input x\n%n = torch.neg(%x)\n%a_1 = torch.sum(%n, dim=1)\n%b = self.act(%a_1)\nreturn %b",
    modules=(ModuleRecord("act", "torch.nn.ELU", (("alpha", "2.0"),)),),
    notes=("x has 3 dimensions",),
)


def test_a_difference_has_the_deepdiff_of_what_differs():
    found = compare_documents(EXPECTED, OBTAINED).deepdiff

    assert {path: (change["old_value"], change["new_value"]) for path, change in found["values_changed"].items()} == {
        "root['nodes']['a_1']['args'][0]": ("%x", "%n"),
        "root['nodes']['a_1']['kwargs']['dim']": ("0", "1"),
        "root['modules']['act']['config']['alpha']": ("1.0", "2.0"),
        "root['notes'][0]": ("x has 2 dimensions", "x has 3 dimensions"),
    }
    assert list(found["dictionary_item_added"]) == ["root['nodes']['n']"]
    assert sorted(found["dictionary_item_removed"]) == ["root['nodes']['c (removed)']", "root['state']['w']"]


def test_the_deepdiff_of_a_match_is_empty():
    for level in ("exact", "structure", "ops", "signature"):
        assert compare_documents(EXPECTED, EXPECTED, level=level).deepdiff == {}


def test_a_difference_with_its_records_can_be_pickled():
    difference = compare_documents(EXPECTED, OBTAINED)

    copy = pickle.loads(pickle.dumps(difference))

    assert copy == difference
    assert copy.deepdiff == difference.deepdiff


def test_the_outermost_records_know_of_a_pair_in_any_graph():
    records = ChangedRecords()
    inner = records.add_graph("sub")
    inner.add("nodes", "n", {"target": "a"}, None)
    inner.add("nodes", "m", None, {"target": "a"})

    assert not records.has_pairs

    inner.add("nodes", "o", {"target": "a"}, {"target": "b"})

    assert records.has_pairs
