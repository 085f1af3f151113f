"""The line at the end of a recorded run: the graphs of all processes together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder import session
from pytest_fxgraph.recorder.session import Summary, register_recorder
from pytest_fxgraph.recordings.records import IS_OF_COMMAND


def sent(failure="", **counts):
    """Return the numbers of one process."""
    return {"counts": {"left out": counts.pop("left_out", 0), **counts}, "failure": failure}


@pytest.fixture(autouse=True)
def no_command(monkeypatch):
    monkeypatch.delenv(IS_OF_COMMAND, raising=False)


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ([sent(symbolic=20, export=11, tests=12)], "recorded 31 graphs of 12 tests in kept/: 20 symbolic, 11 export"),
        ([sent(symbolic=1, tests=1, left_out=3)],
         "recorded 1 graph of 1 test in kept/: 1 symbolic; 3 left out (see kept/index)"),
        ([sent(symbolic=1, tests=1), sent(symbolic=2, tests=1, left_out=1)],
         "recorded 3 graphs of 2 tests in kept/: 3 symbolic; 1 left out (see kept/index)"),
        ([sent(left_out=2)],
         "recorded no graph in kept/: no test traced, exported or compiled a model; 2 left out (see kept/index)"),
    ],
)  # fmt: skip
def test_the_numbers_of_all_processes_are_one_line(numbers, line):
    summary = Summary("kept/", None)
    for each in numbers:
        summary.add(each)

    assert summary.line() == line


def test_the_run_of_a_command_names_no_folder(monkeypatch):
    monkeypatch.setenv(IS_OF_COMMAND, "1")
    summary = Summary("kept", None)
    summary.add(sent(symbolic=1, tests=1, left_out=3))

    assert summary.line() == "recorded 1 graph of 1 test: 1 symbolic; 3 left out"


def test_workers_send_their_numbers_and_each_failure_is_told_once():
    summary, lines = Summary("kept", None), []
    for output in (sent("the disk is full", symbolic=1, tests=1), sent("the disk is full"), sent("it is gone"), None):
        node = SimpleNamespace() if output is None else SimpleNamespace(workeroutput={session._SENT: output})
        summary.pytest_testnodedown(node)
    summary.pytest_testnodedown(SimpleNamespace(workeroutput={}))

    summary.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))

    assert lines == [
        "recorded 1 graph of 1 test in kept: 1 symbolic",
        "the recording is not complete: the disk is full",
        "the recording is not complete: it is gone",
    ]


@pytest.fixture
def register(monkeypatch):
    """Return a function that registers the recorder, and returns the plugins and the place."""

    def register(given, **facts):
        plugins, places = {}, []

        def recorder(config, place, summary):
            if given == "wrong":
                raise RecordingError("cannot write there")
            places.append((place, summary is not None))
            return "recorder"

        monkeypatch.setattr(session, "Recorder", recorder)
        config = SimpleNamespace(
            getoption=lambda name, default=None: given if name == "fx_record" else default,
            option=SimpleNamespace(dist="no", numprocesses=None, tx=[]),
            invocation_params=SimpleNamespace(dir="/begun"),
            pluginmanager=SimpleNamespace(register=lambda plugin, name: plugins.update({name: plugin})),
            **facts,
        )
        register_recorder(config)
        return [*plugins], places

    return register


def test_a_place_is_below_the_folder_in_which_the_run_began(register):
    both = ["fxgraph-recorder-summary", "fxgraph-recorder"]

    assert register("kept") == (both, [("/begun/kept", True)])
    assert register("memory://kept") == (both, [("memory://kept", True)])
    assert register("/kept", workerinput={"workerid": "gw0"}) == (["fxgraph-recorder"], [("/kept", False)])
    with pytest.raises(pytest.UsageError, match=r"^--fx-record: cannot write there$"):
        register("wrong")
