from __future__ import annotations

from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate import session as session_file
from pytest_fxgraph.gate.attempt import attach_outcomes
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK, LaunchedRank
from pytest_fxgraph.gate.ranks_writes import TestOutcome
from pytest_fxgraph.gate.session import GoldenSession
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.stage_strip import StageStrip

ID = "test_a.py::test_x"
MATCHED = Outcome(ID, "golden/test_a/test_x.yaml", "structure", "matched")
UPDATED = replace(MATCHED, status="updated", new_text="format: 2\n", update="new")
MISSING = replace(MATCHED, status="missing", received="format: 2\n")


@pytest.fixture
def session(tmp_path):
    options = {"fx_golden_dir": "golden", "fx_received": True}
    return GoldenSession(
        SimpleNamespace(stash=pytest.Stash(), rootpath=tmp_path, getoption=lambda name, default=None: options[name])
    )


def finish(
    session, *outcomes, failing=None, outcome="passed", phases=("setup", "call", "teardown"), node=None, **fields
):
    """Report a test that made these outcomes, of which one phase may not have passed."""
    for when in phases:
        report = SimpleNamespace(nodeid=ID, when=when, outcome=outcome if when == failing else "passed", node=node)
        report.location = ("test_a.py", 4, "test_x")
        if when == failing:
            vars(report).update(fields)
        if when == "teardown":
            attach_outcomes(outcomes, report)
        session.pytest_runtest_logreport(report)


# A worker of pytest-xdist on another machine.
REMOTE = SimpleNamespace(gateway=SimpleNamespace(spec=SimpleNamespace(popen=False)))


def golden(session):
    path = session.config.rootpath / UPDATED.golden
    return path.read_text(encoding="utf-8") if path.exists() else None


def test_a_golden_is_written_once_all_three_phases_have_passed(session):
    finish(session, UPDATED)

    assert golden(session) == "format: 2\n"
    assert session.written == [UPDATED.golden]
    assert session.summary() == "1 golden written"
    assert session.outcomes == [replace(UPDATED, new_text=None)]


@pytest.mark.parametrize("failing", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_test_that_did_not_pass_writes_nothing(session, failing, outcome):
    finish(session, UPDATED, failing=failing, outcome=outcome)

    assert golden(session) is None
    assert session.written == []
    assert session.summary() == "1 golden not written"
    assert [each.status for each in session.outcomes] == ["refused"]


def test_a_test_that_passed_against_its_marker_writes_nothing(session):
    finish(session, UPDATED, failing="call", wasxfail="")

    assert golden(session) is None


def test_a_part_of_the_call_that_failed_counts_although_a_later_one_passed(session):
    finish(session, UPDATED, failing="call", outcome="failed", phases=("setup", "call"))
    finish(session, UPDATED, phases=("call", "teardown"))

    assert golden(session) is None


def test_an_attempt_that_is_repeated_does_not_count(session):
    finish(session, UPDATED, failing="teardown", outcome="rerun")
    assert session.outcomes == []

    finish(session, UPDATED)
    assert golden(session) == "format: 2\n"


def test_what_failed_in_one_attempt_is_forgotten_in_the_next(session):
    finish(session, MISSING, failing="call", outcome="failed", phases=("setup", "call"))
    finish(session, MISSING)

    assert session.written_received == []


def test_two_tests_that_want_one_golden_write_the_first_text_and_say_so(session):
    other = replace(UPDATED, nodeid="test_a.py::test_y", new_text="format: 2\nother\n")

    finish(session, UPDATED)
    finish(session, other)

    assert golden(session) == "format: 2\n"
    assert session.errors == [
        "cannot write golden/test_a/test_x.yaml: test_a.py::test_x and test_a.py::test_y want different graphs in it; "
        "give one of them a name of its own with fx_golden(name=...)"
    ]
    assert session.summary() == "1 golden written, 1 not written"


def test_two_tests_that_want_the_same_text_write_it_once(session):
    finish(session, UPDATED)
    finish(session, replace(UPDATED, nodeid="test_a.py::test_y"))

    assert session.written == [UPDATED.golden]
    assert session.errors == []
    assert session.summary() == "2 goldens written"


def test_a_remote_worker_that_compared_with_another_golden_writes_nothing(session):
    finish(session, replace(UPDATED, expected_digest="0" * 64), node=REMOTE)

    assert golden(session) is None
    assert session.errors[0].startswith("cannot trust what a worker says of golden/test_a/test_x.yaml: its copy is not")


def test_what_this_run_has_written_is_newer_than_the_copy_of_a_remote_worker(session):
    finish(session, UPDATED)
    finish(session, replace(MATCHED, expected_digest="0" * 64), node=REMOTE)

    assert session.errors == []


def test_a_golden_that_cannot_be_written_is_an_error_and_not_written(session):
    (session.config.rootpath / "golden").write_text("a file in the way", encoding="utf-8")

    finish(session, UPDATED)

    assert session.summary() == "1 golden not written"
    assert session.errors[0].startswith("cannot write the golden file ")


def test_what_a_failed_test_received_is_kept_until_the_test_passes(session):
    received = session.config.rootpath / "golden/test_a/test_x.received.yaml"

    finish(session, MISSING, failing="call", outcome="failed")
    assert received.read_text(encoding="utf-8").endswith("\nformat: 2\n")
    assert session.written_received == ["golden/test_a/test_x.received.yaml"]

    again = GoldenSession(session.config)
    finish(again, MATCHED, failing="call", outcome="skipped")
    assert received.exists()
    finish(again, MATCHED)
    assert not received.exists()


def test_what_one_run_received_is_not_removed_by_a_later_test_of_it(session):
    finish(session, MISSING, failing="call", outcome="failed")
    finish(session, MATCHED)

    assert (session.config.rootpath / "golden/test_a/test_x.received.yaml").exists()


def test_the_summary_counts_each_result_in_a_fixed_order(session):
    statuses = ["error", "missing", "mismatch", "mismatch", "matched", "matched"]
    finish(session, *(replace(MATCHED, golden=f"golden/{at}.yaml", status=each) for at, each in enumerate(statuses)))

    assert session.summary() == "2 goldens matched, 2 differ, 1 missing, 1 unreadable"
    assert session.asked() == {f"golden/{at}.yaml" for at in range(6)}


def test_one_golden_that_differs_and_a_run_without_goldens(session):
    assert session.summary() == ""

    finish(session, replace(MATCHED, status="mismatch"), MATCHED)

    assert session.summary() == "1 golden differs"


def test_a_numeric_failure_of_the_last_attempt_is_kept_with_the_line_of_its_test(session):
    found = {"fxgraph_numeric_failures": [asdict(NumericFailure(ID, "they differ", "by much"))]}

    finish(session, failing="call", outcome="failed", phases=("setup", "call"), **found)  # and the worker is gone
    finish(session, failing="call", outcome="failed", **found)

    assert session.failures == [NumericFailure(ID, "they differ", "by much")]
    assert session.places == {ID: ("test_a.py", 5)}


def test_of_a_test_that_went_well_no_line_is_kept(session):
    finish(session, MATCHED, UPDATED)

    assert session.places == {}


def followed(session, *texts, **fields):
    """Report a test that followed these lowerings."""
    for when in ("setup", "call", "teardown"):
        report = SimpleNamespace(nodeid=ID, when=when, outcome="passed", location=("test_a.py", 4, "test_x"))
        if when == "teardown":
            vars(report).update(fields)
            attach_outcomes([], report, [StageStrip("", (), text) for text in texts])
        session.pytest_runtest_logreport(report)


def test_a_lowering_gets_the_name_of_its_test(session):
    followed(session, "first")

    assert session.strips() == (StageStrip(ID, (), "first"),)


def test_lowerings_of_an_earlier_attempt_are_forgotten(session):
    followed(session, "first attempt", outcome="rerun")
    followed(session, "second attempt")

    assert [strip.text for strip in session.strips()] == ["second attempt"]


def test_a_golden_that_another_run_has_changed_is_not_written(session):
    path = session.config.rootpath / UPDATED.golden
    path.parent.mkdir(parents=True)
    path.write_text("format: 2\nof: another run\n", encoding="utf-8")

    finish(session, UPDATED)

    assert golden(session) == "format: 2\nof: another run\n"
    assert session.errors == [
        f"cannot write {UPDATED.golden}: another run has changed it since {ID} was compared with it; nothing was "
        "written, look at it and run the test again"
    ]
    assert session.summary() == "1 golden not written"


# Sessions of ranks that one command launched.

OTHER = replace(MATCHED, nodeid="test_a.py::test_y", golden="golden/test_a/test_y.yaml")


class Exchange:
    """The exchange of ranks, with the results that other ranks deliver."""

    size = 3

    def __init__(self, others, lost):
        self.others, self.lost, self.delivered = others, lost, None

    def gather(self):
        return self.others, self.lost

    def deliver(self, results):
        self.delivered = results


@pytest.fixture
def ranked(session, monkeypatch):
    """Return a function that makes the session of a rank, and the exchange."""

    def make(rank, others=None, lost=()):
        exchange = Exchange(others or {}, list(lost))
        monkeypatch.setattr(session_file, "gathering_of", lambda config: exchange)
        session.config.stash[LAUNCHED_RANK] = LaunchedRank(rank, 3, "launch", 3, "")
        return GoldenSession(session.config), exchange

    return make


def results(*outcomes, has_passed=True, failed=()):
    """Return what a rank delivers."""
    told = [TestOutcome(each, each.nodeid not in failed, each.nodeid in failed).to_data() for each in outcomes]
    return {"passed": has_passed, "failed": [*failed], "outcomes": told}


@pytest.mark.parametrize("has_passed", [True, False])
def test_another_rank_than_the_first_hands_its_outcomes_over_and_writes_nothing(ranked, has_passed):
    session, exchange = ranked(1)
    finish(session, UPDATED, OTHER)
    assert session.outcomes == []

    assert session.gather(has_passed=has_passed)

    assert exchange.delivered == results(
        *(replace(each, is_alone=False) for each in (UPDATED, OTHER)), has_passed=has_passed
    )
    assert (golden(session), session.written) == (None, [])
    assert session.results == {(ID, UPDATED.golden): "written", (OTHER.nodeid, OTHER.golden): "matched"}


def test_another_rank_tells_the_tests_that_failed(ranked):
    session, exchange = ranked(2)
    finish(session, UPDATED, failing="call", outcome="failed")

    session.gather(has_passed=False)

    assert exchange.delivered == results(UPDATED, has_passed=False, failed=[ID])
    assert session.results == {(ID, UPDATED.golden): "refused"}


def test_rank_0_writes_the_goldens_that_all_ranks_want(ranked):
    session, _ = ranked(0, {1: results(UPDATED), 2: results(UPDATED)})
    finish(session, UPDATED)
    assert golden(session) is None

    assert session.gather(has_passed=True)

    assert (golden(session), session.written, session.errors) == ("format: 2\n", [UPDATED.golden], [])


@pytest.mark.parametrize(
    "delivered", [results(UPDATED, has_passed=False, failed=[ID]), results(has_passed=False, failed=[ID])]
)
def test_rank_0_writes_no_golden_of_a_test_that_failed_on_another_rank(ranked, delivered):
    session, _ = ranked(0, {1: results(UPDATED), 2: delivered})
    finish(session, UPDATED)

    assert not session.gather(has_passed=True)

    assert golden(session) is None
    assert session.summary() == "1 golden not written"


def test_rank_0_writes_no_golden_of_a_test_that_failed_there(ranked):
    session, _ = ranked(0, {1: results(UPDATED), 2: results(UPDATED)})
    finish(session, UPDATED, failing="call", outcome="failed")

    assert session.gather(has_passed=False)  # which is asked of the other ranks alone

    assert golden(session) is None


def test_a_rank_that_ended_without_results_is_an_error_and_nothing_is_written(ranked):
    session, _ = ranked(0, {1: results(UPDATED)}, lost=[2, 3])
    finish(session, UPDATED)

    assert not session.gather(has_passed=True)

    assert golden(session) is None
    assert session.errors == [
        "cannot gather the goldens of 3 ranks: rank 2, 3 ended without its results, so that no golden was written; "
        "look at its output and run the tests again"
    ]


@pytest.mark.parametrize("lost", [(), (2,)])
def test_variants_that_no_rank_needs_go_unless_a_rank_is_lost(ranked, lost):
    others = {1: results(UPDATED), 2: results(UPDATED)}
    session, _ = ranked(0, {rank: each for rank, each in others.items() if rank not in lost}, lost)
    folder = session.config.rootpath / "golden/test_a"
    folder.mkdir(parents=True)
    outdated = [folder / f"test_x@ranks-1{end}" for end in (".yaml", ".received.yaml")]
    for path in outdated:
        path.write_text("format: 2\nold: 1\n", encoding="utf-8")
    finish(session, UPDATED)

    session.gather(has_passed=True)

    assert [path.exists() for path in outdated] == [bool(lost)] * 2


def test_a_run_that_no_launcher_started_gathers_nothing(session):
    finish(session, UPDATED)

    assert session.gather(has_passed=False)
    assert golden(session) == "format: 2\n"


@pytest.mark.parametrize(
    ("facts", "is_new"),
    [
        ({"status": "missing"}, True),
        ({"status": "updated", "update": "new"}, True),
        ({"status": "updated", "update": "changed"}, False),
        ({"status": "matched"}, False),
        ({"status": "missing", "inline": {}}, False),
    ],
)
def test_goldens_are_new_that_are_missing_or_added_in_files(session, facts, is_new):
    outcome = replace(MATCHED, **facts)
    session.outcomes.append(outcome)

    assert session.new() == [outcome] * is_new


def test_the_goldens_of_a_test_whose_beginning_nobody_reported_are_not_written(session):
    finish(session, UPDATED, phases=("call", "teardown"))

    assert golden(session) is None


@pytest.mark.parametrize(
    ("lacked", "lacking"), [([True], {ID}), ([False], set()), ([True, False], set()), ([False, True], set())]
)
def test_a_test_lacks_goldens_if_it_failed_for_nothing_else(session, lacked, lacking):
    for each in lacked:
        finish(session, failing="call", outcome="failed", fxgraph_lacked_goldens_only=each)

    assert session.lacking() == lacking


def test_a_test_without_a_line_is_placed_at_the_first_line_of_its_file(session):
    report = SimpleNamespace(nodeid=ID, when="teardown", outcome="failed", location=("test_a.py", None, "test_x"))
    attach_outcomes([MISSING], report)

    session.pytest_runtest_logreport(report)

    assert session.places == {ID: ("test_a.py", 1)}


@pytest.mark.parametrize(
    ("command", "section"), [("pytest x", "it differs\nmore"), ("", "it differs\n  accept: pytest x\nmore")]
)
def test_a_test_that_expects_its_mismatch_is_told_no_command(session, command, section):
    mismatch = replace(MATCHED, status="mismatch", command=command, section="it differs\n  accept: pytest x\nmore")

    finish(session, replace(mismatch, cluster="3f"), failing="call", outcome="skipped", wasxfail="known")

    assert session.outcomes == [replace(mismatch, command="", section=section, cluster="")]


def test_results_are_kept_without_the_texts(session):
    finish(session, MISSING, replace(UPDATED, golden="golden/b.yaml"), failing="call", outcome="failed")

    assert [(each.new_text, each.received) for each in session.outcomes] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("facts", "passed", "result"),
    [
        ({"status": "matched"}, False, "matched"),
        ({"status": "mismatch"}, False, "mismatch"),
        ({"status": "updated", "new_text": "x\n"}, False, "refused"),
        ({"status": "updated", "new_text": "x\n"}, True, "written"),
    ],
)
def test_an_inline_golden_is_written_if_its_test_passed_and_any_other_result_is_its_own(session, facts, passed, result):
    inline = Outcome(ID, "test_a.py:3", "structure", inline={"file": "test_a.py", "digest": "", "end": [3, 4]}, **facts)

    finish(session, inline, **({} if passed else {"failing": "call", "outcome": "failed"}))

    assert session.results == {(ID, "test_a.py:3"): result}
    assert session.asked() == set()


def test_rank_0_writes_a_golden_that_it_alone_compared(ranked):
    session, _ = ranked(0, {1: results(), 2: results()})
    finish(session, UPDATED)

    assert session.gather(has_passed=True)

    assert golden(session) == "format: 2\n"


def test_no_variant_goes_where_ranks_want_another_text_in_one_place(ranked):
    inline = replace(UPDATED, golden="test_a.py:3", inline={"file": "test_a.py", "digest": "", "end": [3, 4]})
    others = results(UPDATED, replace(inline, new_text="other\n"))
    session, _ = ranked(0, {1: others, 2: others})
    outdated = session.config.rootpath / "golden/test_a/test_x@ranks-1.yaml"
    outdated.parent.mkdir(parents=True)
    outdated.write_text("format: 2\nold: 1\n", encoding="utf-8")
    finish(session, UPDATED, inline)

    session.gather(has_passed=True)

    assert len(session.errors) == 2
    assert outdated.exists()


def test_a_part_that_could_not_be_written_is_refused_and_no_other_result_changes(session):
    place = {"file": "gone.py", "digest": "", "end": [3, 4], "program": "", "number": 0, "text": ""}
    inline = Outcome(ID, "gone.py:3", "structure", "updated", new_text="x\n", inline=place)
    finish(session, inline, UPDATED, MATCHED)

    session.finish(None)

    assert [each.status for each in session.outcomes] == ["refused", "updated", "matched"]
    assert session.results == {(ID, "gone.py:3"): "refused", (ID, UPDATED.golden): "written"}
    assert len(session.errors) == 1
