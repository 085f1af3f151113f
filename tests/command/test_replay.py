"""`fxgraph replay`. Slow tests run pytest in children; the others compare recordings that are there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from pytest_fxgraph.command.main import main
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore

MODEL = """
    import torch

    class Small(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1
"""
TESTS = """
    import torch.fx
    from shop import Small

    def test_a():
        torch.fx.symbolic_trace(Small())

    def test_b():
        torch.fx.symbolic_trace(torch.nn.Linear(1, 1))
"""
# As setuptools writes it.
FINDER = """
import sys
from importlib.util import spec_from_file_location

MAPPING = {{'shop': {!r}}}

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, MAPPING[name] + '/__init__.py')

def install():
    sys.meta_path.append(Finder)
"""
ASKS = """
import os
import torch

class Small(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1 if "OTHER" in os.environ else x + 1
"""
METHOD = """
        return self.inner(x)

    def inner(self, x):
        return torch.relu(x) + 1
"""
SUITE = {"src/shop/__init__.py": MODEL, "tests/test_it.py": TESTS}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)


@pytest.fixture
def change(git_folder, monkeypatch):
    """A branch of a suite. Its checkout is where the command runs."""
    git_folder.commit(SUITE, "the base")
    git_folder.git("checkout", "-q", "-b", "change")
    monkeypatch.chdir(git_folder.path)
    return git_folder


@pytest.fixture
def replay(capfd):
    def run(*arguments):
        status = main(["replay", *arguments])
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run


def doubled(function):
    return lambda x: function(x) * 2


@pytest.fixture
def recordings(recording_of, relu, sigmoid, tmp_path):
    """Two recordings on disk: one test with an edit."""
    for name, made in (("before", recording_of(a=[relu])), ("after", recording_of(a=[sigmoid]))):
        write_recording(tmp_path / name, made)
    return str(tmp_path / "before"), str(tmp_path / "after")


def write_recording(folder, recording, ends=True):
    from pytest_fxgraph.recordings.records import EndRecord, OutcomeRecord, StartRecord
    from pytest_fxgraph.recordings.store import RecordingStore

    store = RecordingStore(str(folder))
    index = store.new_index(StartRecord("1-a", (), (), {"torch": "2.13.0"}, seeded=True))
    for name, test in recording.tests.items():
        for graph in test.graphs:
            store.keep(graph.graph, recording.store.text(graph.graph))
            index.add(graph)
        index.add(OutcomeRecord(name, test.outcome))
    if ends:
        index.add(EndRecord(1, 1))
    index.close()


def test_two_recordings_are_compared_without_a_run(replay, recordings):
    before, after = recordings

    status, told, steps = replay("--against", before, after)

    assert status == 1
    assert told.splitlines()[:3] == [
        "1 test, 1 graph: 0 same, 1 edit in 1 graph",
        "",
        "edit: torch.relu -> torch.sigmoid",
    ]
    assert steps == ""
    assert replay("--against", before, before)[:2] == (0, "1 test, 1 graph: 1 same\n")


@pytest.mark.parametrize(
    ("options", "status", "last"),
    [
        (["--expect", "same"], 1, "not expected: edit: torch.relu -> torch.sigmoid"),
        (["--expect-edit", "*relu -> torch.sigmoid"], 0, "    return %add"),
        (["--expect-edit", "*gelu*"], 1, "expected, and not found: *gelu*"),
    ],
)
def test_an_expectation_decides(replay, recordings, options, status, last):
    found, told, _ = replay("--against", *recordings, *options)

    assert (found, told.splitlines()[-1]) == (status, last)


def test_reports_and_data_are_written(replay, recordings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    status, told, steps = replay("--against", *recordings, "--json", "-o", "x.html", "-o", "x.md", "-o", "x.json")

    assert status == 1
    assert json.loads(told) == json.loads(Path("x.json").read_text())
    assert Path("x.json").read_text().startswith('{\n "')
    assert json.loads(told)["findings"][0]["words"] == "torch.relu -> torch.sigmoid"
    assert "Replay" in Path("x.html").read_text()
    assert Path("x.md").read_text().startswith("## Replay: 1 test, 1 graph: 0 same, 1 edit in 1 graph\n")
    assert steps.count("wrote the report x.") == 3
    status, _, steps = replay("--against", *recordings, "-o", "x.svg")
    assert (status, steps.strip()) == (
        2,
        "fxgraph: cannot write the report x.svg: give a name that ends in .html, .md, .json",
    )


def test_github_gets_annotations_and_a_summary_unless_all_is_expected(replay, recordings, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))

    _, told, steps = replay("--against", *recordings)

    assert steps == "fxgraph: added the report to the job summary\n"
    assert told.splitlines()[-1].startswith("::error title=graph a (symbolic Model) #1::torch.relu -> torch.sigmoid")
    assert (tmp_path / "summary").read_text().startswith("## Replay: 1 test")
    assert "::error" not in replay("--against", *recordings, "--expect-edit", "*relu*")[1]


def test_github_gets_one_annotation_for_an_edit_of_several_graphs(
    replay, recording_of, relu, sigmoid, tmp_path, monkeypatch
):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name, first in (("before", relu), ("after", sigmoid)):
        write_recording(tmp_path / name, recording_of(a=[first], b=[doubled(first)]))

    _, told, _ = replay("--against", str(tmp_path / "before"), str(tmp_path / "after"))

    assert "1 edit in 2 graphs" in told
    assert told.count("::error") == 1


def test_a_run_that_was_cut_off_cannot_tell(replay, recording_of, relu, tmp_path):
    write_recording(tmp_path / "whole", recording_of(a=[relu]))
    write_recording(tmp_path / "cut", recording_of(a=[relu]), ends=False)

    status, told, _ = replay("--against", str(tmp_path / "whole"), str(tmp_path / "cut"))

    assert status == 2
    assert "cannot tell the rest: the run of the change was cut off in 1 process" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "/nowhere", "b"], "/nowhere holds no recording"),
        (["--python", sys.executable, "HEAD"], "cannot compare with HEAD and with"),
        (["no-such-branch"], "cannot find the revision no-such-branch"),
        (["--python", "/no/python"], "cannot record with /no/python"),
    ],
)
def test_wrong_choices_are_errors_in_words(replay, change, arguments, words):
    status, _, steps = replay(*arguments)

    assert status == 2
    assert f"fxgraph: {words}" in steps
    assert "recording in" not in steps  # before any run


def test_arguments_for_two_recordings_are_refused(replay, recordings):
    status, _, steps = replay("--against", *recordings, "--", "-k", "it")

    assert status == 2
    assert "are recordings, and no test runs; leave the arguments out" in steps


class Trees:
    """Trees that have been recorded: the base and the checkout, or two environments of the checkout."""

    def __init__(self, before, after):
        self.asked, self._recordings = [], {"commit": before, "checkout": after, "its python": before}

    def interpreter(self, path):
        self.asked.append(f"interpreter {path}")

    def of_commit(self, commit):
        self.asked.append(f"commit {commit}")
        return self._recordings["commit"]

    @contextmanager
    def of_checkout(self, python=None):
        self.asked.append(f"checkout {python}")
        yield self._recordings["checkout" if python is None else "its python"]


@pytest.mark.parametrize(
    ("arguments", "asked", "steps"),
    [
        ([], ["commit c1", "checkout None"], "fxgraph: the base is the merge base with main\n"),
        (["old"], ["commit c of old", "checkout None"], ""),
        (
            ["same"],
            ["commit c of same", "checkout None"],
            "fxgraph: the checkout is the base itself, title of c of same; name another base to see a change\n",
        ),
        (["--python", "p"], ["interpreter p", "checkout None", "checkout p"], ""),
        (["--against", "{before}"], ["checkout None"], ""),
    ],
)
def test_the_trees_that_are_compared_follow_from_the_arguments(
    replay, recordings, monkeypatch, arguments, asked, steps
):
    trees = Trees(*(Recording.read(RecordingStore(place)) for place in recordings))
    repository = SimpleNamespace(
        merge_base=lambda: ("c1", "main"),
        commit=lambda revision: f"c of {revision}",
        title=lambda commit: f"title of {commit}",
        is_changed=lambda commit: commit != "c of same",
    )
    monkeypatch.setattr("pytest_fxgraph.command.replay.recorded_trees", lambda options: (trees, repository))

    status, told, printed = replay(*(argument.format(before=recordings[0]) for argument in arguments))

    edit = "torch.sigmoid -> torch.relu" if "--python" in arguments else "torch.relu -> torch.sigmoid"
    assert (status, told.splitlines()[2]) == (1, f"edit: {edit}")
    assert (trees.asked, printed) == (asked, steps)


@pytest.mark.slow
def test_the_working_tree_is_compared_with_the_merge_base(replay, change):
    change.write({"src/shop/__init__.py": MODEL.replace("relu", "sigmoid")})
    before = {path: path.read_bytes() for path in change.path.rglob("*") if path.is_file()}

    status, told, steps = replay()

    assert (status, told.splitlines()[0]) == (1, "2 tests, 2 graphs: 1 same, 1 edit in 1 graph")
    assert "edit: torch.relu -> torch.sigmoid" in told
    assert "the base is the merge base with main" in steps
    assert {path: path.read_bytes() for path in change.path.rglob("*") if path.is_file()} == before

    change.write(
        {"src/shop/__init__.py": dedent(MODEL).replace("        return torch.relu(x) + 1", METHOD.strip("\n"))}
    )
    status, told, steps = replay("--expect", "same")
    assert (status, told) == (0, "2 tests, 2 graphs: 2 same\n")
    assert "the base: recorded before, in " in steps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["path", "finder"])
def test_an_editable_install_of_the_checkout_leaves_the_base_its_own_code(replay, change, tmp_path, monkeypatch, kind):
    change.write({"src/shop/__init__.py": MODEL.replace("relu", "sigmoid")})
    site = tmp_path / "site"
    site.mkdir()
    source = change.path / "src"
    if kind == "path":
        (site / "shop.pth").write_text(f"{source}\n")
    else:
        (site / "shop.pth").write_text("import __editable___shop_finder as f; f.install()\n")
        (site / "__editable___shop_finder.py").write_text(FINDER.format(str(source / "shop")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    (site / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(site)!r})\n")

    status, told, _ = replay()

    assert (status, told.splitlines()[0]) == (1, "2 tests, 2 graphs: 1 same, 1 edit in 1 graph")


@pytest.mark.slow
def test_a_base_that_takes_the_code_of_the_change_is_an_error(replay, change):
    taken = f"import sys\nsys.path.insert(0, {str(change.path / 'src')!r})\n"
    change.commit({"conftest.py": taken})
    change.git("branch", "-f", "main")
    change.write({"src/shop/__init__.py": MODEL.replace("relu", "sigmoid")})

    status, _, steps = replay()

    assert status == 2
    assert "its run imported code from elsewhere: shop from " in steps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "words"),
    [
        ({"tests/test_it.py": "import a_package_that_is_not_there"}, "could not collect the tests"),
        ({"tests/test_it.py": ""}, "pytest found no test; give the tests as arguments"),
    ],
)
def test_a_base_that_cannot_be_recorded_is_an_error_with_the_next_step(replay, change, base, words):
    change.commit(base)
    change.git("branch", "-f", "main")
    change.write(SUITE)

    status, _, steps = replay()

    assert status == 2
    assert words in steps
    assert "if the base needs other packages than the change, record it with them" in steps


@pytest.mark.slow
def test_tests_that_fail_in_one_of_two_and_new_tests_are_told(replay, change):
    change.write({"tests/test_it.py": TESTS + "        assert False\n\n    def test_new():\n        pass\n"})

    status, told, _ = replay("HEAD", "--", "-q", "tests")

    assert status == 1
    assert told.splitlines()[0] == "2 tests, 2 graphs: 2 same, 1 other outcome, 1 new test"
    assert "other outcome: passed -> failed\n    tests/test_it.py::test_b" in told


@pytest.mark.slow
def test_two_interpreters_are_compared_at_one_commit(replay, change, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nOTHER=1 exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    change.write({"src/shop/__init__.py": ASKS})

    status, told, steps = replay("--python", str(other))

    assert (status, told.splitlines()[0]) == (1, "2 tests, 2 graphs: 1 same, 1 edit in 1 graph")
    assert steps.count("the checkout: recording in ") == 2


@pytest.mark.slow
def test_a_checkout_is_compared_with_a_recording(replay, change, tmp_path, capfd):
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-q", "--fx-record", tmp_path / "kept", "--fx-record-seeded"]
    subprocess.run(command, env=given, check=True, capture_output=True)

    status, told, steps = replay("--against", str(tmp_path / "kept"))
    assert (status, told) == (0, "2 tests, 2 graphs: 2 same\n")
    assert "recorded 2 graphs of 2 tests: 2 symbolic\n" in steps + capfd.readouterr().err


@pytest.mark.slow
def test_a_terminated_replay_leaves_nothing(change, tmp_path):
    waits = f"import time\ndef test_a():\n    open({str(tmp_path / 'began')!r}, 'w')\n    time.sleep(600)"
    change.write({"tests/test_it.py": waits})
    command = [sys.executable, "-m", "pytest_fxgraph.command.main", "replay"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=change.path)
    while not (tmp_path / "began").exists():
        assert process.poll() is None
        time.sleep(0.05)

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 130
    assert [*(tmp_path / "cache/fxgraph/runs").iterdir()] == []
    assert not [path for path in change.path.rglob("*") if path.name in (".pytest_cache", "__pycache__")]
