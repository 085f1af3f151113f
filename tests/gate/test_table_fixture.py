"""The walk of a table: no row yet, written, matches, differs, better, unused; and what it refuses."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np
import pytest
import torch

import fixtures.dynamo  # noqa: F401  before any test: Dynamo cannot be imported a second time
import fxcore
from fixtures import models_that_break as models
from fixtures.items import made_item
from pytest_fxgraph import capture
from pytest_fxgraph.captures.capture import Break, Capture
from pytest_fxgraph.captures.places import Place
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.errors import CaptureError, ChoiceError, GateError, GoldenFormatError
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.table_fixture import ObtainedRow, TableRow
from pytest_fxgraph.gate.table_numbers import measured_numbers, numbers_of, row_values
from pytest_fxgraph.goldens.table_columns import differences
from pytest_fxgraph.goldens.table_rows import Row, decode_table, encode_table
from pytest_fxgraph.report.outcome import Outcome

TESTS = """
import json, pytest, torch
from torch import nn

class Model(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = x + 1
        return x.relu()

NUMBERS = json.load(open("numbers.json", encoding="utf-8"))

@pytest.mark.parametrize("model", sorted(NUMBERS))
def test_model(model, fx_table):
    assert Model(NUMBERS[model]) == fx_table(extra={"seconds": 1.5})
"""
TABLE = "golden/test_models/table.yaml"
# Hypothesis would be imported anew by each run, which takes two seconds.
_WITHOUT = [part for name in ("randomly", "logging", "hypothesispytest") for part in ("-p", f"no:{name}")]


@pytest.fixture
def project(pytester):
    pytester.makepyfile(test_models=TESTS)
    pytester.path.joinpath("numbers.json").write_text('{"large": 2, "medium": 1, "small": 0}', encoding="utf-8")
    return pytester


def run(project, *options):
    return project.runpytest_inprocess(*_WITHOUT, *options)


def rows(project):
    return decode_table(project.path.joinpath(TABLE).read_text(encoding="utf-8"), "the table")


def test_a_table_is_walked_through(project):
    missing = run(project)
    missing.stdout.fnmatch_lines(["*GoldenMissingError: golden/test_models/table.yaml has no row 'test_model?large?'"])
    missing.stdout.fnmatch_lines(["*it would be: breaks 0, fallbacks 0, graphs 1, nodes 5, operators 3, *seconds 1.5*"])
    assert not project.path.joinpath(TABLE).exists()

    run(project, "--fx-update-golden").assert_outcomes(passed=3)
    text = project.path.joinpath(TABLE).read_text(encoding="utf-8")
    assert [line.partition(", breaks")[0] for line in text.splitlines()] == [
        "table: 1",
        "rows:",
        "- {row: 'test_model[large]'",
        "- {row: 'test_model[medium]'",
        "- {row: 'test_model[small]'",
        "end: true",
    ]
    run(project).assert_outcomes(passed=3)

    project.path.joinpath("numbers.json").write_text('{"large": 1, "medium": 2, "small": 0}', encoding="utf-8")
    differs = run(project)
    differs.assert_outcomes(passed=1, failed=2)
    differs.stdout.fnmatch_lines(
        [
            "*row 'test_model?large?' of golden/test_models/table.yaml does not match: nodes 5 -> 4 "
            "(one node fewer), which is better: accept it",
            "*nodes 4 -> 5 (one node more), which is worse",
        ]
    )
    assert project.path.joinpath(TABLE).read_text(encoding="utf-8") == text

    run(project, "--fx-update-golden", "-k", "large").assert_outcomes(passed=1, deselected=2)
    assert {name: row.values["operators"] for name, row in rows(project).items()} == {
        "test_model[large]": 2,
        "test_model[medium]": 2,
        "test_model[small]": 1,
    }


def test_rows_that_no_test_asks_for_are_told_and_pruned(project):
    run(project, "--fx-update-golden")
    project.path.joinpath("numbers.json").write_text('{"medium": 1, "small": 0}', encoding="utf-8")

    told = "no test asks for 1 of the rows of golden/test_models/table.yaml: test_model[[]large]"
    run(project).stdout.fnmatch_lines([f"fx table: {told}*"])
    assert run(project, "--fx-unused", "fail").ret == 1
    run(project, "-k", "small").stdout.no_fnmatch_line("fx table: no test*")
    run(project, "--fx-prune-golden").stdout.fnmatch_lines(
        ["fx table: removed 1 row of golden/test_models/table.yaml that no test asks for: *"]
    )
    assert [*rows(project)] == ["test_model[medium]", "test_model[small]"]


def test_tests_that_fail_leave_their_rows(project):
    run(project, "--fx-update-golden")
    before = project.path.joinpath(TABLE).read_text(encoding="utf-8")
    project.makepyfile(test_models=TESTS.replace('"seconds": 1.5})', '"seconds": 2.5})\n    assert model != "large"'))

    run(project, "--fx-update-golden").assert_outcomes(passed=2, failed=1)

    values = {name: row.values["seconds"] for name, row in rows(project).items()}
    assert values == {"test_model[large]": 1.5, "test_model[medium]": 2.5, "test_model[small]": 2.5}
    assert len(before.splitlines()) == len(project.path.joinpath(TABLE).read_text(encoding="utf-8").splitlines())


def test_two_tests_with_one_row_are_an_error(project):
    project.makepyfile(test_models=TESTS.replace('extra={"seconds": 1.5}', 'row="model"'))

    result = run(project, "--fx-update-golden")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["fx: two tests have the row 'model' of golden/test_models/table.yaml:*"])
    assert not project.path.joinpath(TABLE).exists()


ROW = Row("b", "b", {"nodes": 3, "seconds": 0.1})


def test_a_table_is_read_back_as_it_was_written():
    table = [ROW, Row("a 'quoted' [x]", "test_a", {"nodes": 0}), Row('a\n"\\\u2028', "on", {"yes": -1})]

    assert decode_table(encode_table(table), "x") == {row.name: row for row in table}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nodes: 3", "nodes: '.nan'", "'.nan', which is no number"),
        ("nodes: 3", "nodes: true", "line 3: column 'nodes' of row 'b' is True, which is no number"),
        ("nodes: 3", "nodes: 'nan'", "'nan'; a table holds finite numbers"),
        ("nodes: 3, seconds: '0.1'", "", "the row 'b' is empty"),
        ("- {row: b,", "- {", "names no model"),
        ("end: true", "", "it was cut off"),
        ("rows:", "<<<<<<< ours\nrows:", "it holds a merge conflict"),
        ("end: true", "- {row: b, nodes: 3}\nend: true", "stands there twice"),
        ("table: 1", "table: 2", "does not begin with `table: 1`"),
        (
            "rows:\n- {row: b, nodes: 3, seconds: '0.1'}\n",
            "",
            "it has no row, and every comparison with it would say nothing",
        ),
    ],
)
def test_a_table_that_is_none_is_refused_with_the_reason(old, new, words):
    with pytest.raises(GoldenFormatError, match="cannot read the table x") as error:
        decode_table(encode_table([ROW]).replace(old, new), "x")

    assert words in str(error.value)


def test_numbers_within_their_tolerance_match():
    expected, obtained = {"nodes": 100, "loss": 1.0}, {"nodes": 104, "loss": 1.001}

    assert [*differences(expected, obtained, {"nodes": "5%", "loss": 0.01}, {})] == []
    assert [*differences(expected, obtained, {"nodes": 2, "loss": 0.01}, {})] == [
        "nodes 100 -> 104 (4 nodes more), which is worse"
    ]
    assert [*differences(expected, obtained, {"nodes": 4}, {"loss": "higher"})] == [
        "loss 1 -> 1.001, which is better: accept it"
    ]


def test_a_cost_that_differs_is_told_with_its_share():
    expected, obtained = (
        {"bytes": 7_385_208, "flops": 0, "uncounted": 1},
        {"bytes": 7_597_176, "flops": 5, "uncounted": 2},
    )

    assert [*differences(expected, obtained, {}, {})] == [
        "bytes 7385208 -> 7597176 (+2.87%), which is worse",
        "flops 0 -> 5, which is worse",
        "uncounted 1 -> 2, which is worse",
    ]


def test_columns_that_came_or_went_differ():
    assert [*differences({"nodes": 1}, {"loss": 2.0}, {}, {})] == [
        "loss is 2, and the row does not have it",
        "nodes was 1, and was not measured",
    ]


def test_what_is_no_number_or_no_column_is_refused():
    with pytest.raises(GateError, match="column 'loss' of row 'a' is nan: a table holds finite numbers"):
        measured_numbers({"loss": float("nan")}, "a")
    with pytest.raises(ChoiceError, match="there is no column 'node'; there are nodes"):
        [*differences({"nodes": 1}, {"nodes": 1}, {"node": 1}, {})]
    with pytest.raises(ChoiceError, match="expected a number such as 2, or a part such as '5%'"):
        [*differences({"nodes": 1}, {"nodes": 1}, {"nodes": "many"}, {})]


@pytest.mark.parametrize(
    ("extra", "error", "words"),
    [
        ({"nodes": 3}, ChoiceError, "a table has row, test, graphs, .* itself; give the column another name"),
        ({"test": 3}, ChoiceError, "give the column another name"),
        ({"loss": torch.ones(())}, GateError, "column 'loss' of row 'a' is an object of type Tensor"),
        ({"loss": True}, GateError, "is True: a table holds finite numbers"),
    ],
)
def test_what_is_no_column_of_a_test_is_refused(extra, error, words):
    with pytest.raises(error, match=words):
        measured_numbers(extra, "a")


def test_numbers_of_numpy_are_kept_as_those_of_python():
    numbers = measured_numbers({"loss": np.float64(0.1), "steps": np.int64(3)}, "a")

    table = encode_table([Row("a", "a", numbers)])
    assert decode_table(table, "x")["a"].values == {"loss": 0.1, "steps": 3}


def test_what_graphs_cost_is_counted_where_their_shapes_are_known():
    linear, inputs = torch.nn.Linear(4, 3), (torch.ones(2, 4),)
    expected = {"flops": 48, "params": 15, "peak_activation": 56, "uncounted": 0}

    for subject in (capture(linear, inputs), capture(linear, inputs, frontend="export")):
        assert expected.items() <= row_values(subject, {}, costs=None).items()
    traced = fxcore.symbolic_trace(linear)
    assert expected.items() <= row_values(traced, {}, costs=True, example_inputs=inputs).items()
    assert "flops" not in row_values(traced, {}, costs=None)
    assert "flops" not in row_values(capture(linear, inputs), {}, costs=False)
    with pytest.raises(CaptureError, match=r"not known; give example_inputs=, or .* with fx_table\(costs=False\)"):
        row_values(traced, {}, costs=True)


def test_graphs_around_a_break_cost_what_they_cost_together():
    class Breaks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = models.Whole()

        def forward(self, x):
            x = self.whole(x)
            print()
            return self.whole(x)

    whole = row_values(capture(models.Whole(), (torch.ones(2, 4),)), {}, costs=True)
    twice = row_values(capture(Breaks(), (torch.ones(2, 4),)), {}, costs=True)

    assert (twice["graphs"], twice["flops"], twice["params"]) == (2, 2 * whole["flops"], whole["params"])


def test_a_model_that_captured_nothing_has_no_row():
    with pytest.raises(CaptureError, match="made no graph of it"):
        numbers_of(Capture("dynamo", "Model", []))


def test_the_numbers_of_a_capture_count_its_breaks():
    place = Place("model.py", 1, "forward", "print()")
    found = [Break("builtin", "print", place, True, None, "")]
    graph = fxcore.symbolic_trace(torch.nn.ReLU())

    numbers = numbers_of(Capture("dynamo", "Model", [graph, graph], breaks=found))

    assert numbers == {
        "graphs": 2,
        "breaks": 1,
        "recompiles": 0,
        "skipped": 0,
        "fallbacks": 0,
        "operators": 2,
        "nodes": 6,
    }


def test_a_row_of_another_test_is_told_with_both_cures():
    obtained = ObtainedRow(Row("a", "test_new", {"nodes": 1}), {}, {})
    golden = Row("a", "test_old", {"nodes": 1})

    assert obtained.differs_from(golden)
    shown, facts = "golden/test_a/table.yaml[a]", {"is_alone": True, "is_drawn": False, "has_variants": False}
    told = obtained.told(golden, shown, "pytest x", **facts)
    assert told.lines == (told.headline,)
    assert told.headline == (
        "the row 'a' of golden/test_a/table.yaml belongs to the test test_old; give one of the tests a row of its own "
        "with fx_table(row=...), or if the test was renamed: pytest x"
    )


def test_a_test_with_two_subjects_names_their_rows(project):
    project.makepyfile(
        test_models=TESTS.replace("    assert Model", "    assert Model(1) == fx_table()\n    assert Model", 1)
    )

    result = run(project, "--fx-update-golden", "-k", "small")

    words = "this test compares two subjects with the row 'test_model?small?'; name them with fx_table(row=...)"
    result.stdout.fnmatch_lines([f"*GateError: {words}"])


def test_costs_that_cannot_be_counted_name_the_way_to_leave_them_out():
    graph = fxcore.symbolic_trace(torch.nn.Linear(4, 3))

    with pytest.raises(
        CaptureError, match=r"cannot count .*; leave the columns of costs out with fx_table\(costs=False\)"
    ):
        row_values(graph, {}, costs=True, example_inputs=(torch.ones(2, 5),))


@pytest.mark.parametrize("columns", [1, 4, 5])
def test_four_columns_that_differ_are_told_at_once_and_further_ones_in_a_section(columns):
    names = [f"extra_{letter}" for letter in "abcde"[:columns]]
    obtained = ObtainedRow(Row("r", "test_x", dict.fromkeys(names, 2)), {}, {})
    facts = {"is_alone": False, "is_drawn": False, "has_variants": False}

    told = obtained.told(Row("r", "test_x", dict.fromkeys(names, 1)), "golden/t.yaml[r]", "pytest x", **facts)

    changes = [f"{name} 1 -> 2" for name in names]
    head, *more = told.lines[:-2]
    assert head.startswith(f"row 'r' of golden/t.yaml does not match: {changes[0]}")
    assert [line.partition(" (")[0].strip() for line in more] == (
        [*changes[1:3], "and 2 more columns, in the section below"] if columns == 5 else changes[1:]
    )
    assert told.lines[-2:] == ("  if all goldens of this test are right, accept them with", "    pytest x")
    assert bool(told.section) is (columns == 5)


@pytest.mark.parametrize(
    ("now", "before", "is_told"), [(2, 1, True), (1, None, True), (1, 1, False), (1, 2, False), (0, None, False)]
)
def test_findings_of_a_kind_are_told_if_there_are_more_of_it(now, before, is_told):
    finding = Change("signature", "added", "break", "print", source="model.py:3", operator="print")
    values = {} if before is None else {"breaks": before}
    obtained = ObtainedRow(Row("r", "test_x", {"nodes": 2, "breaks": now, "graphs": 5}), {}, {}, [finding])

    golden = Row("r", "test_x", {"nodes": 1, "graphs": 1, **values})
    told = obtained.told(golden, "t.yaml[r]", "pytest x", is_alone=True, is_drawn=False, has_variants=False)

    assert bool(told.changes) is is_told
    assert ("model.py:3" in told.section) is is_told


@pytest.mark.parametrize("is_received", [False, True])
def test_a_row_is_received_if_the_run_keeps_received_files(tmp_path, is_received):
    item, attempt = made_item(tmp_path, fx_received=is_received), GoldenAttempt()
    obtained = ObtainedRow(Row("r", "test_x", {"nodes": 2}), {}, {})
    place = TableRow(item, attempt, PurePosixPath("test_a/table.yaml"), "r", obtained)

    outcome = place.with_received(Outcome("t", place.shown, "table", "missing"), lambda: obtained.new_text)

    assert outcome.received == (obtained.new_text if is_received else None)
