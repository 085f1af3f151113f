from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from pytest_fxgraph.gate.paths import golden_root, shown, slashed_path, within_folder

ROOT = Path("/root/project")


def run(folder=None, started_in=ROOT, options=None, **fields):
    """Return the config of a run that was started in a folder, with --fx-golden-dir and other options or without."""
    given = {"fx_golden_dir": folder, **(options or {})}
    return SimpleNamespace(
        stash=pytest.Stash(),
        rootpath=ROOT,
        invocation_params=SimpleNamespace(dir=started_in),
        getoption=lambda key, default=None: given.get(key, default),
        getini=lambda key: "",
        **fields,
    )


@pytest.mark.parametrize(
    ("folder", "root", "prefix"),
    [
        (None, ROOT / "golden", "golden"),
        ("a/b", ROOT / "a" / "b", "a/b"),
        ("/elsewhere/g", Path("/elsewhere/g"), "../../elsewhere/g"),
        ("./beside", ROOT / "beside", "beside"),
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

    assert slashed_path("/elsewhere/golden", ROOT) == "/elsewhere/golden"


def test_a_golden_beside_its_test_is_shown_relative_to_rootdir_and_found_again():
    config, golden = run("beside"), PurePosixPath("tests/golden/test_a/test_x.yaml")

    assert golden_root(config) == ROOT
    assert shown(golden, config) == str(golden)
    assert within_folder(shown(golden, config), config) == golden
