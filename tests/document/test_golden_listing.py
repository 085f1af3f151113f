from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from pytest_fxgraph.document.golden_listing import begins_like_a_golden, file_tested_by, goldens_below


def test_everything_named_like_a_golden_is_listed_and_no_link_is_followed(tmp_path):
    for name in ("b/t.yaml", "a/t.yaml", "a/t.received.yaml", "a/t.txt"):
        path = tmp_path / "golden" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "golden/loop").symlink_to(tmp_path)

    assert [str(path) for path in goldens_below(tmp_path / "golden")] == [
        "a/t.received.yaml",
        "a/t.yaml",
        "b/t.yaml",
    ]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    assert list(goldens_below(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"format: 1\n", True),
        (b"\xef\xbb\xbfformat: 1\r\n", True),
        (b"# received\n\n---\nformat: 12\n", True),
        (b"format: yaml\n", False),
        (b"on: push\nformat: 1\n", False),
        (b"", False),
        (b"#" * 10_000, False),
    ],
)
def test_a_golden_is_told_by_how_it_begins(tmp_path, content, expected):
    path = tmp_path / "t.yaml"
    path.write_bytes(content)

    assert begins_like_a_golden(path) is expected


def test_the_file_that_a_golden_tests(tmp_path):
    (tmp_path / "spec.txt").touch()

    assert file_tested_by(PurePosixPath("tests/test_net/test_a.yaml"), tmp_path) == "tests/test_net.py"
    assert file_tested_by(PurePosixPath("spec.txt/test_a.yaml"), tmp_path) == "spec.txt"
    assert file_tested_by(PurePosixPath("test_a.yaml"), tmp_path) is None
