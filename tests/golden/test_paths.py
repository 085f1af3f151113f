from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from pytest_fxgraph.golden.paths import STARTED_IN, accepting_command, golden_root, shown, slashed_path, within_folder

ROOT = Path("/root/project")


def run(folder=None, started_in=ROOT, **fields):
    """Return the config of a run that was started in a folder, with --fx-golden-dir or without."""
    return SimpleNamespace(
        rootpath=ROOT,
        invocation_params=SimpleNamespace(dir=started_in),
        getoption=lambda key: folder,
        getini=lambda key: "",
        **fields,
    )


def command(inside, config):
    return accepting_command(
        SimpleNamespace(config=config, path=ROOT / "tests" / "test_a.py", nodeid=f"tests/test_a.py{inside}")
    )


@pytest.mark.parametrize(
    ("inside", "target"),
    [
        ("::TestB::test_c", "tests/test_a.py::TestB::test_c"),
        ("::" + "x" * 83, "tests/test_a.py::" + "x" * 83),
        ("::" + "x" * 84, "tests/test_a.py"),
        ("::test_c[a b]", "tests/test_a.py"),
        ("", "tests/test_a.py"),
    ],
)
def test_the_command_names_the_test_or_its_file_where_a_shell_would_not_read_the_id(inside, target):
    assert command(inside, run()) == f"pytest --fx-update-golden {target}"


def test_the_command_repeats_the_folder_of_the_goldens():
    assert command("::test_c", run("my goldens")) == (
        "pytest --fx-update-golden --fx-golden-dir 'my goldens' tests/test_a.py::test_c"
    )


@pytest.mark.parametrize(
    "config",
    [run(started_in=ROOT / "tests"), run(workerinput={STARTED_IN: "tests"}, started_in=Path("/elsewhere"))],
    ids=["here", "on a worker"],
)
def test_the_command_can_be_pasted_where_pytest_was_started(config):
    assert command("::test_c", config) == "pytest --fx-update-golden test_a.py::test_c"


@pytest.mark.parametrize(
    ("folder", "root", "prefix"),
    [
        (None, ROOT / "golden", "golden"),
        ("a/b", ROOT / "a" / "b", "a/b"),
        ("/elsewhere/g", Path("/elsewhere/g"), "../../elsewhere/g"),
    ],
)
def test_a_golden_is_shown_relative_to_rootdir_and_found_again(folder, root, prefix):
    config, golden = run(folder), PurePosixPath("test_a/test_x.yaml")

    assert golden_root(config) == root
    assert shown(golden, config) == f"{prefix}/test_a/test_x.yaml"
    assert within_folder(shown(golden, config), config) == golden


def test_a_file_on_another_drive_is_named_in_full(monkeypatch):
    def refuse(path, start):
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr("os.path.relpath", refuse)

    assert command("::test_c", run()) == f"pytest --fx-update-golden {ROOT}/tests/test_a.py::test_c"
    assert slashed_path("/elsewhere/golden", ROOT) == "/elsewhere/golden"
