"""The one pipeline of goldens: what it keeps of a comparison, and what it tells."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_fxgraph.errors import GoldenFormatError, GoldenMissingError, GoldenVersionError, GoldenWriteError
from pytest_fxgraph.gate import comparison
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.comparison import Place, TestPlace, compare
from pytest_fxgraph.report.outcome import Outcome, Told

GOLDEN = "golden/a.yaml"


class MadePlace(Place):
    """A place with a text, or with the error of its file."""

    def __init__(self, found: str | Exception, *, update: str = "", command: str = "", remark: str = "") -> None:
        super().__init__(GOLDEN, GoldenAttempt())
        self.found, self.update, self.command, self.remark = found, update, command, remark

    def read(self) -> str:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def may_write(self, update: str) -> bool:
        if self.update == "refused":
            raise GoldenWriteError("nobody may write here")
        return update == self.update

    def schedule(self, outcome: Outcome) -> Outcome:
        return outcome

    def way_to_accept(self) -> tuple[str, str]:
        return self.command, self.remark

    def in_own_words(self, error):
        return error

    def missing_lines(self, command: str, reason: str) -> tuple[str, ...]:
        return f"there is no {self.shown}", f"write it: {command}"


class MadeGraph:
    """An obtained text, as a graph."""

    def __init__(self, text: str) -> None:
        self.new_text = text

    def matches(self, text: str) -> bool:
        return text == self.new_text

    def read(self, text: str, origin: str) -> str:
        if text.startswith("damaged"):
            raise (GoldenVersionError if text.endswith("newer") else GoldenFormatError)(f"{origin} cannot be read")
        return text

    def differs_from(self, golden: str) -> bool:
        return golden.lower() != self.new_text

    def told(self, golden: str, shown: str, command: str, **about: bool) -> Told:
        return Told(f"{golden} -> {self.new_text}", (f"{shown} differs",), f"section {about}")

    def another_level(self, text: str, golden: str) -> str | None:
        return "only names differ" if golden == "names" else None

    def text_after(self, golden: str) -> str:
        return f"{self.new_text} after {golden}"

    def section(self, shown: str) -> str:
        return f"graph of {shown}"

    def picture(self) -> tuple[str, ...]:
        return ("picture",)


def compared(place: MadePlace, text: str = "new") -> tuple[Exception | None, Outcome]:
    error = compare(place, MadeGraph(text), Outcome("t", GOLDEN, "structure", "matched"))
    (outcome,) = place.attempt.outcomes
    return error, outcome


@pytest.mark.parametrize("golden", ["new", "NEW"])
def test_a_golden_of_the_same_text_or_the_same_graph_matches(golden):
    error, outcome = compared(MadePlace(golden, update="changed"))

    assert (error, outcome.status, outcome.new_text) == (None, "matched", None)


@pytest.mark.parametrize(
    ("found", "update", "text"),
    [
        ("old", "changed", "new after old"),
        ("names", "changed", "new after names"),
        (GoldenMissingError("no"), "new", "new"),
        ("damaged", "changed", "new"),
    ],
)
def test_a_run_that_updates_goes_on_with_the_new_text(found, update, text):
    error, outcome = compared(MadePlace(found, update=update))

    assert (error, outcome.status, outcome.new_text, outcome.update) == (None, "updated", text, update)


@pytest.mark.parametrize(
    ("found", "update", "status"),
    [
        ("old", "new", "mismatch"),
        (GoldenMissingError("no"), "changed", "missing"),
        ("damaged", "new", "error"),
        ("damaged newer", "changed", "error"),
        ("old", "refused", "refused"),
    ],
)
def test_a_run_that_does_not_update_such_goldens_fails(found, update, status):
    error, outcome = compared(MadePlace(found, update=update, command="pytest x"))

    assert error is not None
    assert outcome.status == status
    assert outcome.command == ("" if found == "damaged newer" or update == "refused" else "pytest x")


@pytest.mark.parametrize(
    ("remark", "message"), [("", f"{GOLDEN} differs"), ("write it by hand", f"{GOLDEN} differs\n  write it by hand")]
)
def test_a_mismatch_ends_with_the_remark_of_its_place(remark, message):
    error, outcome = compared(MadePlace("old", remark=remark))

    assert str(error) == message
    assert outcome.lines == tuple(message.split("\n"))
    assert outcome.headline == "old -> new"


@pytest.mark.parametrize(
    ("command", "remark", "step"), [("pytest x", "", "pytest x"), ("", "set update=True", "set update=True")]
)
def test_a_golden_of_another_level_is_told_with_its_next_step(command, remark, step):
    error, _ = compared(MadePlace("names", command=command, remark=remark))

    assert str(error).split("\n")[0] == f"{GOLDEN} does not match: only names differ"
    assert str(error).split("\n")[-1] == f"    {step}"


@pytest.mark.parametrize("is_drawn", [True, False])
def test_a_missing_golden_is_told_with_a_picture_where_reports_draw(is_drawn):
    place = MadePlace(GoldenMissingError("no"), command="pytest x")
    place.is_drawn = is_drawn

    error, outcome = compared(place)

    assert isinstance(error, GoldenMissingError)
    assert str(error) == f"there is no {GOLDEN}\nwrite it: pytest x"
    assert outcome.headline == f"there is no {GOLDEN}"
    assert outcome.graphs == (("picture",) if is_drawn else ())
    assert place.attempt.sections == [(outcome.section_name, f"graph of {GOLDEN}")]


@pytest.mark.parametrize(
    ("found", "tells_all", "end"),
    [
        (GoldenMissingError("no"), True, f"\n\ngraph of {GOLDEN}"),
        ("names", True, "step"),  # there is no section
        (GoldenMissingError("no"), False, "step"),
    ],
)
def test_an_error_has_the_section_where_no_report_has_it(found, tells_all, end):
    place = MadePlace(found, command="step")
    place.tells_all = tells_all

    error, _ = compared(place)

    assert str(error).endswith(end)


@pytest.mark.parametrize(
    ("found", "is_alone", "expected"),
    [("old", True, True), ("old", False, False), (GoldenMissingError("no"), True, False), ("damaged", True, True)],
)
def test_a_test_that_lacks_a_golden_may_have_others(found, is_alone, expected):
    place = MadePlace(found)
    place.is_alone = is_alone

    assert compared(place)[1].is_alone is expected


class RowPlace(TestPlace):
    """A place of a test; the pipeline is not asked."""

    read = schedule = missing_lines = None  # type: ignore[assignment]


def place_of(*marks: pytest.Mark, reports: tuple[str, ...] = ()) -> RowPlace:
    """Return a place of a test with these marks, in a run that updates goldens."""
    options: dict[str, Any] = {"fx_report": reports, "fx_update_golden": True}
    item: Any = SimpleNamespace(
        config=SimpleNamespace(getoption=lambda name, default=None: options.get(name, default), getini=lambda name: 0),
        iter_markers=lambda name: iter(marks),
        get_closest_marker=lambda name: next(iter(marks), None),
    )
    RowPlace.__abstractmethods__ = frozenset()
    return RowPlace(GOLDEN, item, GoldenAttempt())


@pytest.mark.parametrize("knows_conditions", [True, False])
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_test_that_is_expected_to_fail_writes_nothing(monkeypatch, is_marked, knows_conditions):
    if not knows_conditions:  # a pytest without the private function
        monkeypatch.setitem(sys.modules, "_pytest.skipping", ModuleType("skipping"))
    monkeypatch.setattr(comparison, "accepting_command", lambda item: "pytest x")

    place = place_of(*[pytest.mark.xfail(reason="known").mark] * is_marked)

    assert place.may_write("changed") is not is_marked
    assert place.way_to_accept() == ("" if is_marked else "pytest x", "")


@pytest.mark.parametrize(
    ("compared", "made", "is_alone"),
    [([], [], True), ([GOLDEN], [GOLDEN], True), (["b"], [], False), ([GOLDEN], ["test.py:3"], False)],
)
def test_a_place_is_alone_until_its_test_has_another_golden(compared, made, is_alone):
    place = place_of()
    place.attempt.outcomes += [Outcome("t", golden, "structure", "matched") for golden in compared]
    place.attempt.uncompared = dict.fromkeys(made)  # type: ignore[assignment]  # nobody reads the lines

    assert place.is_alone is is_alone


@pytest.mark.parametrize(
    ("reports", "is_drawn"), [((), False), (("a.json",), False), (("a.json", "a.md"), True), (("a.html",), True)]
)
def test_graphs_are_drawn_for_pages_and_markdown(reports, is_drawn):
    assert place_of(reports=reports).is_drawn is is_drawn
