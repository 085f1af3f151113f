from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from pytest_fxgraph.choices import BESIDE
from pytest_fxgraph.goldens.files import golden_path
from pytest_fxgraph.goldens.layout import GoldenLayout, nearest_with

FILES = (
    "golden/test_a/x.yaml",
    "golden/tests/test_a/x.yaml",
    "tests/golden/test_a/x.yaml",
    "tests/golden/test_a/x.received.yaml",
    "tests/golden/test_a/deeper/x.yaml",
    "tests/golden/loose.yaml",
    "tests/golden/golden/test_b/x.yaml",
    "tests/data/test_a/x.yaml",
    ".hidden/golden/test_a/x.yaml",
    "node_modules/golden/test_a/x.yaml",
    "env/golden/test_a/x.yaml",
)


@pytest.fixture
def project(tmp_path) -> Path:
    for name in (*FILES, "env/pyvenv.cfg", "tests/sheet.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def found(layout: GoldenLayout, *files: str) -> list[str]:
    return sorted(str(path) for path in layout.goldens(files or None))


def test_in_one_folder_all_that_is_named_like_a_golden_is_one(project):
    layout = GoldenLayout(project, "golden")

    assert found(layout) == ["test_a/x.yaml", "tests/test_a/x.yaml"]
    assert layout.file_tested_by(PurePosixPath("tests/test_a/x.yaml")) == "tests/test_a.py"
    assert layout.top_folder(PurePosixPath("tests/test_a/x.yaml")) == PurePosixPath()
    assert layout.holds(project / "golden/tests/golden/x.yaml")
    assert not layout.holds(project / "tests/golden/test_a/x.yaml")


def test_beside_the_folders_of_test_files_hold_goldens_wherever_they_are(project):
    layout = GoldenLayout(project, BESIDE)

    assert found(layout) == [
        "golden/test_a/x.yaml",
        "tests/golden/golden/test_b/x.yaml",
        "tests/golden/test_a/x.received.yaml",
        "tests/golden/test_a/x.yaml",
    ]
    assert layout.holds(project / "tests/golden/test_a/x.yaml")
    assert not layout.holds(project / "golden/tests/test_a/x.yaml")
    assert not layout.holds(project / "tests/golden/loose.yaml")
    assert not layout.holds(project / "tests/golden/test_a/x.json")


def test_beside_some_test_files_nothing_else_is_looked_into(project):
    layout = GoldenLayout(project, BESIDE)

    assert found(layout, "tests/test_a.py", "nowhere/test_b.py") == [
        "tests/golden/test_a/x.received.yaml",
        "tests/golden/test_a/x.yaml",
    ]


@pytest.mark.parametrize(
    ("golden", "file"),
    [
        ("tests/golden/test_a/x.yaml", "tests/test_a.py"),
        ("golden/test_a/x.yaml", "test_a.py"),
        ("tests/golden/sheet.txt/x.yaml", "tests/sheet.txt"),
        ("golden/tests/test_a/x.yaml", None),
        ("golden/x.yaml", None),
    ],
)
def test_beside_the_test_file_is_the_one_that_the_folder_is_named_for(project, golden, file):
    assert GoldenLayout(project, BESIDE).file_tested_by(PurePosixPath(golden)) == file


def test_a_project_can_be_named_relative_to_where_one_is(project, monkeypatch):
    monkeypatch.chdir(project / "tests")

    assert "tests/golden/test_a/x.yaml" in found(GoldenLayout(Path(".."), BESIDE))


@pytest.mark.parametrize("params", [None, "a b", "x" * 300])
def test_where_a_golden_lies_beside_its_test_does_not_depend_on_rootdir(params):
    from_top = golden_path("sub/tests/test_a.py", ["TestB"], "test_c", params, is_beside=True)
    from_sub = golden_path("tests/test_a.py", ["TestB"], "test_c", params, is_beside=True)

    assert from_top == "sub" / from_sub
    assert from_sub.parent == PurePosixPath("tests/golden/test_a")


def test_the_nearest_folder_with_one_of_the_names_is_found_upwards(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".hg").mkdir()
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")

    assert nearest_with(inner, ".git", ".hg") == tmp_path / "a"
    assert nearest_with(inner, ".hg") == tmp_path
    assert nearest_with(inner, "no such name") is None
