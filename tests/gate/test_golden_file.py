from __future__ import annotations

from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.gate import golden_file
from pytest_fxgraph.gate.golden_file import goldens_elsewhere
from pytest_fxgraph.goldens.layout import GoldenLayout

GOLDEN = encode(document("%x = input x\nreturn %x"))
MISSING = PurePosixPath("tests/test_net/test_net.yaml")


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Return the lines for a missing golden of tests/test_net.py below rootdir, after files were written."""
    monkeypatch.setattr(golden_file, "started_in", lambda config: tmp_path)

    def lines(*files: str, rootdir: str = "", text: str = GOLDEN, golden: PurePosixPath = MISSING) -> list[str]:
        for name in (*files, "tests/test_net.py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if name.endswith(".yaml") else "")
        root = tmp_path / rootdir
        root.mkdir(exist_ok=True)
        layout = GoldenLayout(root, "golden")
        monkeypatch.setattr(golden_file, "golden_layout", lambda config: layout)
        config = SimpleNamespace(rootpath=root, stash={})
        return [*goldens_elsewhere(SimpleNamespace(config=config, path=tmp_path / "tests/test_net.py"), golden)]

    return lines


def test_a_golden_of_the_test_in_another_folder_is_named(told, tmp_path):
    assert told("snapshots/tests/test_net/test_net.yaml") == [
        f"  but there is snapshots/tests/test_net/test_net.yaml; is the rootdir right, {tmp_path}?"
    ]


@pytest.mark.parametrize(
    "files",
    [
        [],
        ["golden/tests/test_net/test_net.yaml"],  # the missing golden itself
        ["snapshots/tests/test_net/test_net.received.yaml"],
        ["snapshots/tests/test_net/test_net.yml"],
        ["snapshots/tests/test_net/test_other.yaml"],
        ["snapshots/tests/test_other/test_net.yaml"],
        ["other/golden/test_net/test_net.yaml", "other/test_net.py"],  # the golden of another test file
        ["tests/test_net/test_net.yaml", "test_net.py"],  # of another test file, in the golden folder `tests`
    ],
)
def test_other_files_are_no_golden_of_the_test(told, files):
    assert told(*files) == []


def test_a_file_that_is_no_golden_is_not_named(told):
    assert told("snapshots/tests/test_net/test_net.yaml", text="a: 1\n") == []


def test_the_first_of_several_is_named(told):
    assert len(told("a/tests/test_net/test_net.yaml", "b/tests/test_net/test_net.yaml")) == 1


def test_a_golden_of_a_moved_test_file_is_named_where_no_other_test_file_has_its_place(told):
    assert len(told("old/golden/test_net/test_net.yaml")) == 1


def test_the_digest_in_a_name_does_not_count(told):
    name = PurePosixPath("tests/test_net/test_net~1a2b3c.yaml")

    assert len(told("snapshots/tests/test_net/test_net~9f8e7d.yaml", golden=name)) == 1


@pytest.mark.parametrize(("repository", "count"), [(".git", 1), (".hg", 1), ("docs", 0)])
def test_the_whole_repository_around_rootdir_is_looked_through(told, tmp_path: Path, repository, count):
    (tmp_path / repository).mkdir()

    assert len(told("snapshots/tests/test_net/test_net.yaml", rootdir="part")) == count
