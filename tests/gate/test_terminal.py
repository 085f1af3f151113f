from __future__ import annotations

from types import SimpleNamespace

import pytest
from _pytest._code.code import ExceptionRepr

from pytest_fxgraph.gate import terminal
from pytest_fxgraph.gate.terminal import TerminalSections, show_before_debugger
from pytest_fxgraph.report.outcome import Outcome

LINES = "  - %a = torch.exp(%x)\nrest"


class Error:
    """Stands for the error of a report, which takes sections."""

    def __init__(self) -> None:
        self.sections: list[tuple[str, str, str]] = []

    addsection = ExceptionRepr.addsection


def report(*names: str, nodeid: str = "test_a", longrepr: object = None) -> SimpleNamespace:
    return SimpleNamespace(nodeid=nodeid, sections=[(name, LINES) for name in names], longrepr=longrepr or Error())


@pytest.fixture
def shown(monkeypatch):
    """Return the sections that the terminal shows of failed and errored reports."""

    def of_reports(*reports, verbosity=0, capture="all", colour=False, outcomes=(), errors=()):
        monkeypatch.setattr(terminal, "outcomes_of_run", lambda config: outcomes)
        writer = SimpleNamespace(hasmarkup=colour, markup=lambda text, **styles: f"<{styles}{text}>")
        config = SimpleNamespace(
            get_verbosity=lambda: verbosity,
            get_terminal_writer=lambda: writer,
            getoption=lambda name, default: capture,
        )
        reporter = SimpleNamespace(stats={"failed": list(reports), "error": list(errors)})
        summary = TerminalSections(config).pytest_terminal_summary(reporter)
        next(summary)
        seen = [list(each.sections or ()) for each in (*reports, *errors)]
        added = [list(getattr(each.longrepr, "sections", ())) for each in reports]
        with pytest.raises(StopIteration):
            summary.send(None)
        return seen, added

    return of_reports


def of_cluster(*nodeids: str) -> list[Outcome]:
    names = [f"golden/{nodeid}.yaml" for nodeid in nodeids]
    return [
        Outcome(nodeid, name, "structure", "mismatch", cluster="abc")
        for nodeid, name in zip(nodeids, names, strict=True)
    ]


def test_our_sections_have_colours_while_pytest_shows_them(shown):
    made = report("fx golden x", "Captured stdout call")

    ((ours, others),), _ = shown(made, colour=True)

    assert ours == ("fx golden x", "<{'red': True}  - %a = torch.exp(%x)>\nrest")
    assert others == ("Captured stdout call", LINES)
    assert made.sections == [("fx golden x", LINES), ("Captured stdout call", LINES)]


def test_without_colours_sections_stay(shown):
    assert shown(report("fx golden x"), errors=[report("fx equivalence")])[0] == [
        [("fx golden x", LINES)],
        [("fx equivalence", LINES)],
    ]


@pytest.mark.parametrize(("verbosity", "is_short"), [(0, True), (1, True), (2, False)])
def test_the_same_difference_is_told_once_unless_much_is_asked_for(shown, verbosity, is_short):
    outcomes = of_cluster("test_a", "test_b")
    reports = [report(each.section_name, nodeid=each.nodeid) for each in outcomes]

    (first,), (second,) = shown(*reports, outcomes=outcomes, verbosity=verbosity)[0]

    assert first[1] == LINES
    assert (second[1] == LINES) is not is_short
    if is_short:
        assert second[1] == (
            f"the same difference as in {outcomes[0].section_name.removeprefix('fx golden ')} (cluster abc); "
            "-vv shows it in full"
        )


def test_a_golden_that_two_tests_compared_is_told_in_both(shown):
    outcomes = [*of_cluster("test_a"), Outcome("test_b", "golden/test_a.yaml", "structure", "mismatch", cluster="abc")]
    reports = [report(each.section_name, nodeid=each.nodeid) for each in outcomes]

    assert [sections[0][1] for sections in shown(*reports, outcomes=outcomes)[0]] == [LINES, LINES]


@pytest.mark.parametrize(
    ("capture", "added"), [("all", []), ("no", ["fx golden x"]), ("log", ["fx golden x"]), ("fx", [])]
)
def test_sections_that_the_setting_for_captured_output_hides_are_shown_with_the_error(shown, capture, added):
    made = report("fx golden x", "Captured log call")

    _, (sections,) = shown(made, capture=capture)

    assert [section[0] for section in sections] == added
    assert made.longrepr.sections == []


def test_a_report_of_others_and_an_error_without_sections_stay(shown):
    others, plain = report("Captured stdout call"), report("fx golden x", longrepr="a text")

    assert shown(others, plain, capture="no")[1] == [[], []]
    assert shown(SimpleNamespace(sections=None, longrepr=None))[0] == [[]]


def test_sections_that_others_added_to_the_error_stay(shown):
    made = report("fx golden x")
    made.longrepr.addsection("of others", "text")

    shown(made)

    assert [section[0] for section in made.longrepr.sections] == ["of others"]


def test_a_debugger_shows_our_sections_with_the_error():
    made = report("fx golden x", "Captured stdout call")

    show_before_debugger(made)

    assert [section[:2] for section in made.longrepr.sections] == [("fx golden x", LINES)]
