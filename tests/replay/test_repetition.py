"""The runs of a repetition are played by a function that records as the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay import repetition
from pytest_fxgraph.replay.child_run import ChildRun
from pytest_fxgraph.replay.repetition import TOGETHER, UNSET, Repetition


class Runs:
    """Plays runs: `graphs` gives the constant of each test's graph for the number and the environment of a run."""

    def __init__(
        self,
        graphs,
        *,
        status=0,
        ends=True,
        outcome=lambda number: "passed",
        facts=lambda number: {},
        text="%a = operator.add(%x, {})",
    ):
        self.environments = []
        self._facts, self._text = facts, text
        self._graphs, self._status, self._ends, self._outcome = graphs, status, ends, outcome

    def __call__(self, place, arguments, *, folder, environment):
        number = len(self.environments)
        self.environments.append(environment)
        store = RecordingStore(place)
        index = store.new_index(StartRecord(f"1-{number}", [], [], {}))
        for test, constant in self._graphs(number, environment).items():
            graph = f"{constant:064x}"
            store.keep(graph, encode(document(f"%x = input x\n{self._text.format(constant)}\nreturn %a")))
            index.add(GraphRecord(test, 0, "symbolic", "function", graph, facts=self._facts(number)))
            index.add(OutcomeRecord(test, self._outcome(number)))
        if self._ends:
            index.add(EndRecord(1, 1))
        index.close()
        return ChildRun(self._status, 1.0)


@pytest.fixture
def repeat(tmp_path, monkeypatch):
    def repeat(runs, number=3, **variables):
        monkeypatch.setattr(repetition, "record_in_child", runs)
        told = []
        result = Repetition(["-q"], variables, Path.cwd(), tmp_path, told.append)
        result.run(number)
        return result, told

    return repeat


def test_equal_runs_are_the_same_after_the_given_number_of_runs(repeat):
    runs = Runs(lambda number, environment: {"t": 1, "u": 2})
    result, told = repeat(runs, 4)
    assert [*result.lines()] == ["4 runs, 2 tests, 2 graphs: the same in all runs"]
    assert len(runs.environments) == len(told) == 4


def test_the_settings_of_each_run_differ_and_are_told(repeat, tmp_path):
    runs = Runs(lambda number, environment: {"t": 1})
    _, told = repeat(runs, 3, SIZE="big")
    names = ("PYTHONHASHSEED", "OMP_NUM_THREADS", "TMPDIR", "FXGRAPH_REVERSED", "SIZE")
    assert [[environment.get(name) for name in names] for environment in runs.environments] == [
        ["0", "1", f"{tmp_path}/t0", "", None],
        ["1", "2", f"{tmp_path}/t1", "tests,folders", "big"],
        ["2", "3", f"{tmp_path}/t2", "", None],
    ]
    assert told == [
        "run 1: hash seed 0, 1 thread",
        "run 2: hash seed 1, 2 threads, test order reversed, folder order reversed, SIZE=big",
        "run 3: hash seed 2, 3 threads",
    ]


@pytest.mark.parametrize(
    ("cause", "constant"),
    [
        (UNSET, lambda number, environment: number),
        ("hash seed", lambda number, environment: int(environment["PYTHONHASHSEED"])),
        ("threads", lambda number, environment: int(environment["OMP_NUM_THREADS"])),
        ("test order", lambda number, environment: "tests" in environment["FXGRAPH_REVERSED"]),
        ("folder order", lambda number, environment: "folders" in environment["FXGRAPH_REVERSED"]),
        ("temporary folder", lambda number, environment: int(environment["TMPDIR"][-1])),
        ("variables", lambda number, environment: len(environment.get("SIZE", ""))),
        (
            TOGETHER,
            lambda number, environment: (environment["PYTHONHASHSEED"], environment["OMP_NUM_THREADS"]) == ("1", "2"),
        ),
    ],
)
def test_the_setting_that_makes_a_difference_is_found(repeat, cause, constant):
    result, _ = repeat(Runs(lambda number, environment: {"t": int(constant(number, environment)), "u": 100}), SIZE="b")
    assert [(each.place, each.causes) for each in result.unstable] == [("t (symbolic function)", [cause])]
    assert next(result.lines()).endswith(" 2 tests, 2 graphs: 1 differs")


def test_a_graph_that_differs_under_equal_settings_gets_no_other_cause(repeat):
    result, _ = repeat(
        Runs(lambda number, environment: {"t": number, "u": 100 + int(environment["PYTHONHASHSEED"])}), 2
    )
    assert {each.place: each.causes for each in result.unstable} == {
        "t (symbolic function)": [UNSET],
        "u (symbolic function)": ["hash seed"],
    }


def test_graphs_of_one_cause_and_one_edit_are_told_together(repeat):
    def graphs(number, environment):
        seed = int(environment["PYTHONHASHSEED"])
        return {**{f"t{place}": seed for place in range(7)}, "u": 10 + seed}

    result, told = repeat(Runs(graphs), 2)
    assert [*result.lines()] == [
        "4 runs, 8 tests, 8 graphs: 8 differ",
        "",
        "depends on: hash seed",
        *(f"  t{place} (symbolic function)" for place in range(5)),
        "  and 2 more",
        "    run 2: add other 0 -> 1",
        "  u (symbolic function)",
        "    run 2: add other 10 -> 11",
    ]
    assert told[2:] == [
        "looking for the cause: the same settings again",
        "run 3: hash seed 0, 1 thread",
        "looking for the cause: other hash seed",
        "run 4: hash seed 1, 1 thread",
    ]


def test_a_test_that_is_in_one_run_alone_is_a_difference(repeat):
    result, _ = repeat(Runs(lambda number, environment: {"t": 1, f"u[{environment['PYTHONHASHSEED']}]": 1}), 2)
    assert [(each.place, each.words, each.causes) for each in result.unstable] == [
        ("u[0]", "in run 1 alone", ["hash seed"]),
        ("u[1]", "in run 2 alone", ["hash seed"]),
    ]


def test_a_fact_that_differs_is_told(repeat):
    runs = Runs(lambda number, environment: {"t": 1}, facts=lambda number: {"breaks": ["print"] * (number % 2)})
    result, _ = repeat(runs, 2)

    (found,) = result.unstable
    assert (found.place, found.words, found.run) == ("t (symbolic function)", "run 2: breaks [] -> ['print']", 2)


def test_another_outcome_cannot_be_judged(repeat):
    result, _ = repeat(
        Runs(lambda number, environment: {"t": 1}, outcome=lambda number: "failed" if number == 1 else "passed")
    )
    assert result.unstable == []
    assert [*result.lines()][1:] == ["cannot tell about t: passed in run 1, failed in run 2"]


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (Runs(lambda number, environment: {"t": 1}, status=4), "in run 1, pytest refused its arguments"),
        (Runs(lambda number, environment: {"t": 1}, ends=False), "run 1 was cut off in 1-0"),
        (Runs(lambda number, environment: {}), "run 1 made no graph that was kept; --fx-record-kinds module"),
    ],
)
def test_a_run_without_a_whole_recording_cannot_be_judged(repeat, runs, words):
    with pytest.raises(RecordingError, match=f"cannot tell whether the runs are the same: {words}"):
        repeat(runs)


def test_three_edits_of_a_graph_are_told(repeat):
    calls = [f"%{name} = torch.{name}(%x, {{0}})" for name in "fghk"]
    text = "\n".join([*calls, "%a = torch.cat([%f, %g, %h, %k])"])

    (found,) = repeat(Runs(lambda number, environment: {"t": number}, text=text), 2)[0].unstable

    edits = [f"torch.{name} argument 2: 0 -> 1" for name in "fgh"]
    assert found.words == f"run 2: {'; '.join(edits)} and 1 more"
