"""`fxgraph bisect`. The slow test runs pytest in children; in the others a run records the text of `model.py`."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from pathlib import Path

import pytest

from pytest_fxgraph.command import bisect as bisect_command
from pytest_fxgraph.command.bisect import _compared, _releases
from pytest_fxgraph.command.main import main
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder import config_flags
from pytest_fxgraph.recordings.records import EndRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay import recorded_trees
from pytest_fxgraph.replay.child_run import ChildRun
from pytest_fxgraph.replay.interpreters import Interpreter

SUITE = {
    "model.py": """
        import torch

        class Small(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x) + {}
    """,
    "test_it.py": """
        import torch.fx
        from model import Small

        def test_a():
            torch.fx.symbolic_trace(Small())
    """,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def bisect(capfd, git_folder, monkeypatch):
    monkeypatch.chdir(git_folder.path)

    def run(*arguments):
        status = main(["bisect", *arguments])
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run


@pytest.fixture
def quick_runs(monkeypatch, recording_of, relu, sigmoid):
    """Runs that take no time: the word in `model.py`, or the name of the interpreter, chooses the graph."""
    graphs = {name: recording_of(t=[function]) for name, function in (("relu", relu), ("sigmoid", sigmoid))}

    def record(place, arguments, *, folder, python, **options):
        word = (Path(folder) / "model.py").read_text()
        word = Path(python).resolve().parts[-3] if word == "python" else word
        flags = {each.partition("=")[2] for each in arguments if each.startswith("--fx-config=")}
        word = "broken" if flags == {"b=1"} else "sigmoid" if {"b=1", "d=1"} <= flags else word
        if word not in graphs:
            return ChildRun(2, 1.0)
        store, kept = RecordingStore(place), graphs[word]
        index = store.new_index(StartRecord("1-a", (), (), {}))
        for graph in kept.tests["t"].graphs:
            store.keep(graph.graph, kept.store.text(graph.graph))
            index.add(graph)
        index.add(OutcomeRecord("t", "passed"))
        index.add(EndRecord(1, 1))
        index.close()
        return ChildRun(0, 1.0)

    monkeypatch.setattr(recorded_trees, "record_in_child", record)
    ask = classmethod(lambda cls, path: Interpreter(path, "3.12", {"torch": "2.13.0"}, (), {}))
    monkeypatch.setattr(Interpreter, "ask", ask)


def commits(git_folder, *words):
    return [git_folder.commit({"model.py": word}, f"commit {number}") for number, word in enumerate(words)]


def test_the_first_commit_with_other_graphs_is_named_with_its_edit(bisect, git_folder, quick_runs):
    made = commits(git_folder, "relu", "relu", "relu", "sigmoid", "sigmoid")

    status, told, steps = bisect(made[0], "--", "test_it.py")

    assert status == 1
    assert told.splitlines()[0] == f"the graphs changed first in {made[3][:7]} commit 3"
    assert "edit: torch.relu -> torch.sigmoid" in told
    assert "commit 4: 1 test, 1 graph: 0 same, 1 edit in 1 graph" in steps
    assert json.loads(bisect(made[0], made[4], "--json")[1])["first"] == made[3]


def test_equal_ends_leave_nothing_to_find(bisect, git_folder, quick_runs):
    commits(git_folder, "relu", "sigmoid", "relu")

    assert bisect("HEAD~2")[:2] == (0, "the graphs are the same at both ends: there is nothing to find\n")


def test_commits_without_a_recording_are_named(bisect, git_folder, quick_runs):
    made = commits(git_folder, "relu", "broken", "sigmoid")

    status, told, _ = bisect(made[0])

    assert status == 2
    assert told.splitlines()[0] == (
        f"the graphs changed first in {made[2][:7]} commit 2, or before, in one that has no recording: "
        f"{made[1][:7]} commit 1"
    )


def test_interpreters_of_releases_that_exist_are_searched(bisect, git_folder, quick_runs, tmp_path):
    commits(git_folder, "python")
    names = {"2.9": "relu", "2.10": "relu", "2.12": "sigmoid"}
    for release, graph in names.items():
        (tmp_path / release / graph / "bin").mkdir(parents=True)
        (tmp_path / release / graph / "bin/python").touch()
        (tmp_path / f"torch-{release}").symlink_to(tmp_path / release / graph)
    pythons = [str(tmp_path / release / graph / "bin/python") for release, graph in names.items()]

    status, told, _ = bisect(*(word for python in pythons for word in ("--python", python)))
    assert (status, told.splitlines()[0]) == (1, f"the graphs changed first in {pythons[2]}")
    assert bisect("--python", pythons[0], "--python", pythons[2])[0] == 1

    status, told, steps = bisect("--torch", "2.8..2.13", "--python", str(tmp_path / "torch-{}/bin/python"))
    found = ", ".join(str(tmp_path / f"torch-{release}/bin/python") for release in names)
    assert f"interpreters: {found}, of 6 releases" in steps
    assert (status, told.splitlines()[0]) == (1, f"the graphs changed first in {tmp_path}/torch-2.12/bin/python")


@pytest.fixture
def any_flag(monkeypatch):
    monkeypatch.setattr(bisect_command, "check_flags", lambda flags, python: None)


FLAGS = [word for name in "abcde" for word in ("--config", f"{name}=1")]


@pytest.mark.parametrize("good", [[], ["HEAD"]])
def test_flags_that_change_the_graphs_are_named_with_their_edit(bisect, git_folder, quick_runs, any_flag, good):
    commits(git_folder, "relu")

    status, told, steps = bisect(*good, *FLAGS, "--", "test_it.py")

    assert told.splitlines()[0] == (
        "the graphs change with b=1, d=1, or with fewer, in a set that has no recording: b=1"
    )
    assert "edit: torch.relu -> torch.sigmoid" in told
    assert "a=1, b=1, c=1, d=1, e=1: 1 test, 1 graph: 0 same, 1 edit in 1 graph" in steps
    assert status == 2


def test_flags_are_told_as_json(bisect, git_folder, quick_runs, any_flag):
    commits(git_folder, "relu")

    told = json.loads(bisect(*FLAGS, "--json")[1])

    assert (told["first"], told["between"], told["findings"][0]["sort"]) == ("b=1, d=1", ["b=1"], "edit")


def test_recordings_of_a_commit_with_flags_are_kept(bisect, git_folder, quick_runs, any_flag):
    commits(git_folder, "relu")
    recorded = [bisect("HEAD", *FLAGS)[2].count("recorded before") for _ in range(2)]

    assert recorded[0] == 0
    assert recorded[1] >= 6


def test_flags_that_change_nothing_leave_nothing_to_find(bisect, git_folder, quick_runs, any_flag):
    commits(git_folder, "relu")

    flags = [f"x{number}=1" for number in range(9)]

    status, told, steps = bisect(*(word for flag in flags for word in ("--config", flag)))

    assert (status, told) == (0, "the graphs are the same at both ends: there is nothing to find\n")
    assert f"fxgraph: {', '.join(flags[:8])} and 1 more: 1 test, 1 graph: 1 same\n" in steps


def test_a_flag_that_torch_does_not_have_is_an_error(bisect, git_folder, quick_runs, monkeypatch):
    commits(git_folder, "relu")
    monkeypatch.setattr(config_flags, "told_by", lambda *arguments: ["a=1: torch._dynamo.config has no flag a"])

    status, told, steps = bisect("--config", "a=1", "--python", "env/python")

    assert (status, told) == (2, "")
    assert steps == ("fxgraph: cannot set flags in the torch of env/python: a=1: torch._dynamo.config has no flag a\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(
            (["--config", "a=1", *more], "give flags, at most one revision and at most one --python, and leave out")
            for more in (["HEAD", "HEAD"], ["--python", "a", "--python", "b"], ["--torch", "2.9..2.10"])
        ),
        (["--config", f"@{os.devnull}"], "cannot search flags: give flags, at most one revision"),
        (["--config", "a=no"], "cannot read the flag a=no: no is no literal of Python"),
        ([], "give either a revision GOOD, or at least two interpreters with --python"),
        (["HEAD", "--python", "a", "--python", "b"], "give either a revision GOOD, or at least two"),
        (["--python", "a"], "there are fewer than two; give --python again"),
        (["--torch", "2.9..2.14"], "give one --python with {} for the release"),
        (
            ["--torch", "2.9", "--python", "{}"],
            "cannot read the releases 2.9: give the first and the last as 2.9..2.14",
        ),
        (["--torch", "1.9..2.1", "--python", "{}"], "both have one number before the dot; give 2.9..2.14"),
    ],
)
def test_wrong_choices_are_errors_in_words(bisect, git_folder, arguments, words):
    commits(git_folder, "relu")

    status, _, steps = bisect(*arguments)

    assert status == 2
    assert words in steps


@pytest.mark.parametrize(
    "span", ["2.9", "2.9.", "2.9..2", "2.9..2.x", "2.x..2.10", "2.9..2.10.1", "2..2.10", "2.9..", "a.9..2.10"]
)
def test_a_span_of_releases_has_two_ends_of_two_numbers(span):
    assert [*_releases("2.9..2.11")] == ["2.9", "2.10", "2.11"]
    assert [*_releases("2.9..2.9")] == ["2.9"]
    with pytest.raises(
        RecordingError, match=re.escape(f"cannot read the releases {span}: give the first and the last")
    ):
        [*_releases(span)]


def test_a_recording_without_the_tests_is_an_error(recording_of, relu):
    whole, other, cut = recording_of(a=[relu]), recording_of(b=[relu]), recording_of(a=[relu])
    cut = dataclasses.replace(cut, cut_off=("1-a",))

    with pytest.raises(RecordingError, match="cannot compare c1: it has none of the tests"):
        _compared(whole, other, "c1")
    with pytest.raises(
        RecordingError, match="cannot compare c1: cannot tell the rest: the run of the change was cut off"
    ):
        _compared(whole, cut, "c1")


@pytest.mark.slow
def test_a_commit_is_found_by_runs_of_pytest(bisect, git_folder):
    model = SUITE["model.py"]
    for number, added in enumerate((1, 1, 2)):
        git_folder.commit({**SUITE, "model.py": model.format(added), "note": str(number)}, f"commit {number}")

    status, told, _ = bisect("HEAD~2", "--", "-q", "test_it.py::test_a")

    assert status == 1
    assert told.splitlines()[0].endswith(" commit 2")
    assert "1 -> 2" in told


@pytest.mark.long
def test_a_flag_of_dynamo_is_found_by_runs_of_pytest(bisect, git_folder):
    test = """
        import torch

        def scaled(x):
            return x * x.sum().item()

        def test_a():
            torch.compile(scaled, backend="eager")(torch.ones(3))
    """
    git_folder.commit({"test_it.py": test})
    git_folder.write({"flags": "dynamic_shapes=False\ncapture_scalar_outputs=True\n"})
    flags = ["--config", "@flags", "--config", "torch._inductor.config.fallback_random=True"]

    status, told, steps = bisect(*flags, "--", "-q", "-p", "no:cacheprovider")

    assert told.splitlines()[0] == "the graphs change with capture_scalar_outputs=True"
    assert "edit: 2 operators (item, mul) inserted after sum" in told
    assert "fxgraph: dynamic_shapes=False: 1 test, 2 graphs: 2 same" in steps
    assert status == 1
    status, _, steps = bisect("--config", "capture_scalar_output=True")
    assert status == 2
    assert steps.startswith(
        f"fxgraph: cannot set flags in the torch of {sys.executable}: capture_scalar_output=True: "
        "torch._dynamo.config has no flag capture_scalar_output; names like it: capture_scalar_outputs, "
    )
