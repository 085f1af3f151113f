"""A failed check as plain data, for the reports of a run."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_fxgraph.errors import BreakError, CheckError, CollectiveError, MismatchError


def test_a_failed_check_tells_its_first_line_its_text_and_its_sort():
    error = CheckError("eager and graph differ\nat output", "the whole text", "model.py:12: x = f(x)")

    assert error.report_data("test_a.py::test_x") == {
        "nodeid": "test_a.py::test_x",
        "headline": "eager and graph differ",
        "section": "the whole text",
        "check": "",
        "source": "model.py:12: x = f(x)",
    }
    assert CollectiveError("ranks differ", "").report_data("t")["check"] == "ranks"


def test_a_break_has_the_first_line_that_is_known():
    error = BreakError("broken", (("", "a"), ("model.py:3: print()", "b"), ("model.py:4: x", "c")))

    assert error.source == "model.py:3: print()"
    assert error.report_data("t")["places"] == error.places
    assert BreakError("broken", (("", "a"),)).source == ""


def test_twenty_tensors_of_a_mismatch_are_data():
    findings = tuple(SimpleNamespace(report_data=lambda n=n: {"where": n}) for n in range(21))
    data = MismatchError("differ", "text", findings, ({"node": "relu"},)).report_data("t")

    assert data["tensors"] == [{"where": n} for n in range(20)]
    assert (data["path"], data["check"]) == ([{"node": "relu"}], "equivalence")
