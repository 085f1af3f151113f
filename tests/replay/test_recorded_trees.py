from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay import recorded_trees
from pytest_fxgraph.replay.child_run import ChildRun
from pytest_fxgraph.replay.interpreters import Interpreter
from pytest_fxgraph.replay.recorded_trees import RecordedTrees, Suite, cache_folder
from pytest_fxgraph.replay.revisions import Repository


class Runs:
    """Runs that take no time: a run records the content of `model.py` as its graph."""

    def __init__(self):
        self.made = []
        self.status = 0
        self.modules = {}
        self.ends = True

    def record(self, place, arguments, *, folder, python, environment, timeout):
        self.made.append((Path(folder), tuple(arguments), python, environment))
        index = RecordingStore(place).new_index(StartRecord("1-a", arguments, (), {"commit": "of the build service"}))
        index.add(GraphRecord("t", 0, "symbolic", "M", (Path(folder) / "model.py").read_text()))
        index.add(OutcomeRecord("t", "passed"))
        if self.ends:
            index.add(EndRecord(1, 1, {name: str(file) for name, file in self.modules.items()}))
        index.close()
        return ChildRun(self.status, 1.0)


@pytest.fixture
def runs(monkeypatch):
    found = Runs()
    monkeypatch.setattr(recorded_trees, "record_in_child", found.record)
    asked = Interpreter(sys.executable, "3.12", {"torch": "2.13.0"}, (), {})
    monkeypatch.setattr(Interpreter, "ask", classmethod(lambda cls, path: asked))
    return found


@pytest.fixture
def told():
    return []


@pytest.fixture
def trees(git_folder, tmp_path, told):
    def make(*arguments, folder="", **suite):
        repository = Repository.around(git_folder.path)
        is_fresh = suite.pop("is_fresh", False)
        found = Suite(repository, repository.root / folder, arguments, **suite)
        return RecordedTrees(found, tmp_path / "cache", told.append, is_fresh=is_fresh)

    return make


def graph_of(recording):
    return recording.tests["t"].graphs[0].graph


def left_runs(tmp_path):
    return [path.name for path in (tmp_path / "cache/runs").iterdir()]


def test_a_commit_is_recorded_once_and_the_checkout_as_it_is(git_folder, trees, runs, told, tmp_path):
    commit = git_folder.commit({"model.py": "old"}, "the first")
    git_folder.write({"model.py": "new"})

    assert graph_of(trees().of_commit(commit)) == "old"
    assert graph_of(trees().of_commit(commit)) == "old"
    with trees().of_checkout() as recording:
        assert graph_of(recording) == "new"

    assert len(runs.made) == 2
    assert "the first: recorded before, in " in told[1]
    assert left_runs(tmp_path) == []
    assert [path.name for path in git_folder.path.iterdir() if path.name != ".git"] == ["model.py"]


def test_the_recording_of_a_commit_names_the_commit_whatever_the_build_service_says(git_folder, trees, runs):
    commit = git_folder.commit({"model.py": "old"})

    assert [run.environment["commit"] for _ in range(2) for run in trees().of_commit(commit).runs] == [commit] * 2
    with trees().of_checkout() as recording:
        assert [run.environment["commit"] for run in recording.runs] == ["of the build service"]


def test_another_commit_argument_interpreter_or_variable_is_another_recording(git_folder, trees, runs, monkeypatch):
    first, second = (git_folder.commit({"model.py": name}) for name in ("a", "b"))
    trees().of_commit(first)
    trees().of_commit(second)
    trees("-k", "it").of_commit(first)
    monkeypatch.setenv("TORCHDYNAMO_VERBOSE", "1")
    trees().of_commit(first)
    monkeypatch.setenv("UNRELATED", "1")
    trees().of_commit(first)
    assert len(runs.made) == 4

    asked = Interpreter(sys.executable, "3.12", {"torch": "2.14.0"}, (), {})
    monkeypatch.setattr(Interpreter, "ask", classmethod(lambda cls, path: asked))
    trees().of_commit(first)
    trees(is_fresh=True).of_commit(first)
    assert len(runs.made) == 6


def test_a_recording_with_a_process_that_was_cut_off_is_made_again(git_folder, trees, runs):
    commit = git_folder.commit({"model.py": "a"})
    runs.ends = False
    assert trees().of_commit(commit).cut_off
    runs.ends = True

    assert not trees().of_commit(commit).cut_off
    assert not trees().of_commit(commit).cut_off
    assert len(runs.made) == 2


def test_the_run_of_a_base_stands_in_its_tree(git_folder, trees, runs, monkeypatch):
    commit = git_folder.commit({"model.py": "a", "inner/model.py": "b", "src/shop/__init__.py": ""})
    monkeypatch.setenv("PYTHONPATH", str(git_folder.path / "lib"))

    assert graph_of(trees(f"{git_folder.path}/tests/test_a.py::t", folder="inner").of_commit(commit)) == "b"

    folder, arguments, _, environment = runs.made[0]
    tree = folder.parent
    assert folder.name == "inner"
    assert arguments[-1] == f"{tree}/tests/test_a.py::t"
    assert environment["PYTHONPATH"] == os.pathsep.join([f"{tree}/src", f"{tree}/lib"])


def test_a_folder_that_the_base_lacks_is_an_error(git_folder, trees, runs):
    commit = git_folder.commit({"model.py": "a"})
    git_folder.write({"inner/model.py": "b"})

    with pytest.raises(RecordingError, match=r"cannot record \w+ a commit: it has no folder inner"):
        trees(folder="inner").of_commit(commit)


def test_a_base_without_generated_files_says_how_to_hand_them_over(git_folder, trees, runs, tmp_path):
    commit = git_folder.commit({"model.py": "a", ".gitignore": "_version.py"})
    git_folder.write({"shop/_version.py": "1"})
    git_folder.commit({"shop/__init__.py": ""})
    runs.status = 2

    with pytest.raises(RecordingError) as error:
        trees().of_commit(commit)

    assert "a commit: pytest was interrupted, or could not collect the tests" in str(error.value)
    assert "git ignores shop/_version.py, so the base lacks it: hand it over with --copy PATTERN" in str(error.value)
    assert "if the base needs other packages than the change" in str(error.value)
    assert not list((tmp_path / "cache").glob("recordings/*"))


@pytest.mark.parametrize(
    ("arguments", "status", "last"),
    [
        (["-q", "tests/test_new.py::test_a"], 4, "; the base has no tests/test_new.py: leave it out of the arguments"),
        (
            [f"tests/test_{name}.py::test_{number}" for number in range(2) for name in "abcde"],
            4,
            "; the base has no tests/test_a.py, tests/test_b.py, tests/test_c.py, tests/test_d.py and 1 more: leave it "
            "out of the arguments",
        ),
        (["-q", "tests"], 5, "and give it with --against FOLDER"),
        (["tests/test_new.py"], -9, "the process was ended by SIGKILL; its output may name the reason"),
    ],
)
def test_the_next_step_for_a_base_fits_the_problem(git_folder, trees, runs, arguments, status, last):
    commit = git_folder.commit({"model.py": "a", "tests/test_old.py": ""})
    git_folder.write({f"tests/test_{name}.py": "" for name in ("new", *"abcde")})
    runs.status = status

    with pytest.raises(RecordingError) as error:
        trees(*arguments).of_commit(commit)

    assert str(error.value).endswith(last)


def test_a_checkout_that_cannot_be_recorded_lacks_no_file_of_the_checkout(git_folder, trees, runs):
    git_folder.commit({"model.py": "a", ".gitignore": "_version.py"})
    git_folder.write({"_version.py": "1"})
    runs.status = 2

    with pytest.raises(RecordingError, match=r"cannot record the checkout: .*; its output names the error$"):
        trees("tests/missing.py").of_checkout().__enter__()


def test_code_of_the_checkout_is_no_foreign_code_there(git_folder, trees, runs):
    git_folder.commit({"model.py": "a", "src/shop/__init__.py": ""})
    runs.modules = {"shop": git_folder.path / "src/shop/__init__.py", "tool": git_folder.path / ".venv/x/tool.py"}

    with trees().of_checkout() as recording:
        assert graph_of(recording) == "a"


def test_the_checkout_as_an_argument_is_the_tree(git_folder, trees, runs):
    commit = git_folder.commit({"model.py": "a"})

    trees("-q", str(git_folder.path), f"{git_folder.path}-other").of_commit(commit)

    folder, arguments, _, _ = runs.made[0]
    assert arguments[-3:] == ("-q", str(folder), f"{git_folder.path}-other")


def test_the_options_of_a_run_seed_it_and_keep_the_cache_of_pytest_out_of_the_checkout(git_folder, trees, runs):
    git_folder.commit({"model.py": "a"})

    with trees("-q").of_checkout():
        seeded, option, cache, last = runs.made[0][1]
        assert (seeded, option, last) == ("--fx-record-seeded", "-o", "-q")
        assert not cache.startswith(f"cache_dir={git_folder.path}{os.sep}")


def test_variables_of_this_process_alone_do_not_make_another_recording(git_folder, trees, runs, monkeypatch):
    commit = git_folder.commit({"model.py": "a"})
    for value in ("one", "two"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", value)
        trees().of_commit(commit)
    assert len(runs.made) == 1


def test_generated_files_are_copied_on_request(git_folder, trees, runs, monkeypatch):
    commit = git_folder.commit({"model.py": "a", "lib/__init__.py": "", ".gitignore": "_version.py"})
    git_folder.commit({"shop/__init__.py": "", "shop/inner/deep/__init__.py": ""})
    git_folder.write({"shop/_version.py": "1", "shop/inner/deep/_version.py": "0", "lib/_version.py": "0"})
    seen = []
    record = runs.record

    def look(place, arguments, *, folder, **options):
        assert all((folder / name / "_version.py").read_text() == "0" for name in ("lib", "shop/inner/deep"))
        seen.append((folder / "shop/_version.py").read_text())
        return record(place, arguments, folder=folder, **options)

    monkeypatch.setattr(recorded_trees, "record_in_child", look)
    trees(copied=["*/_version.py"]).of_commit(commit)
    git_folder.write({"shop/_version.py": "2"})
    trees(copied=["*/_version.py"]).of_commit(commit)

    assert seen == ["1", "2"]
    with pytest.raises(RecordingError, match=r"cannot copy \*.so: no file of the checkout that git ignores matches"):
        trees(copied=["*.so"]).of_commit(commit)


@pytest.mark.parametrize("is_installed", [False, True])
def test_a_base_that_imported_other_code_is_an_error(git_folder, trees, runs, is_installed):
    commit = git_folder.commit({"model.py": "a", "src/shop/__init__.py": ""})
    file = Path("/usr/lib/python3/site-packages/shop.py") if is_installed else git_folder.path / "src/shop/__init__.py"
    runs.modules = {"shop": file}

    with pytest.raises(RecordingError, match=rf"its run imported code from elsewhere: shop from {file}; install"):
        trees().of_commit(commit)


def test_a_cache_in_the_checkout_is_refused(git_folder):
    git_folder.commit({"model.py": "a"})
    repository = Repository.around(git_folder.path)

    with pytest.raises(RecordingError, match=r"it is in the checkout, which stays as it is; .* XDG_CACHE_HOME"):
        RecordedTrees(Suite(repository, repository.root, ()), git_folder.path / "cache", print)


def test_folders_of_killed_processes_are_removed(git_folder, trees, runs, tmp_path):
    commit = git_folder.commit({"model.py": "a"})
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    names = [f"{host}@{ended.pid}@0", f"{host}@{os.getpid()}@0", f"{host}@name@0", f"other@{ended.pid}@0", "a folder"]
    for name in names:
        (tmp_path / "cache/runs" / name / "tree").mkdir(parents=True)

    trees().of_commit(commit)

    assert sorted(left_runs(tmp_path)) == sorted(names[1:])


def test_a_failed_run_leaves_no_folder(git_folder, trees, runs, tmp_path, monkeypatch):
    commit = git_folder.commit({"model.py": "a"})

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(recorded_trees, "record_in_child", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trees().of_commit(commit)
    assert left_runs(tmp_path) == []


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fxgraph"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local/fxgraph"
    monkeypatch.delenv("LOCALAPPDATA")
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == Path.home() / ".cache/fxgraph"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library/Caches/fxgraph"


@pytest.mark.parametrize(
    ("name", "error", "has_ended"),
    [
        ("{host}@12@ab", ProcessLookupError, True),
        ("{host}@12@ab", PermissionError, False),  # the process of another user
        ("{host}@12@ab", None, False),
        ("elsewhere@12@ab", ProcessLookupError, False),
        ("{host}@x@ab", ProcessLookupError, False),
        ("{host}", ProcessLookupError, False),
    ],
)
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="this system cannot ask for a process")
def test_a_process_has_ended_if_this_host_knows_none_of_its_number(name, error, has_ended, monkeypatch):
    def kill(process: int, signal: int) -> None:
        assert (process, signal) == (12, 0)
        if error is not None:
            raise error

    monkeypatch.setattr(os, "kill", kill)

    assert recorded_trees._has_ended(name.format(host=socket.gethostname())) is has_ended
