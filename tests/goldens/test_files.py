from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.files import (
    Received,
    base_path,
    begins_like_a_golden,
    file_tested_by,
    golden_digest,
    golden_of_received,
    goldens_below,
    is_received,
    read_received,
    received_path,
    variant_path,
    write_received,
)


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
        (b"format: 1\nnodes:\n- {name: x}\n", True),
        (b"\xef\xbb\xbfformat: 1\r\nnodes: []\r\n", True),
        (b"# received\n\n---\nformat: 12\nnames: kept\nnodes: []\n", True),
        (b"format: 1\n", False),
        (b"format: 1\nrows:\n  nodes: 3\n", False),
        (b"format: yaml\nnodes: []\n", False),
        (b"on: push\nformat: 1\nnodes: []\n", False),
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


GOLDEN = PurePosixPath("tests/test_net/test_net@torch-2.13.yaml")
TEXT = encode(document("return 1"))


def test_a_received_file_lies_beside_its_golden():
    assert received_path(GOLDEN) == PurePosixPath("tests/test_net/test_net@torch-2.13.received.yaml")
    assert golden_of_received(received_path(GOLDEN)) == GOLDEN
    assert is_received(received_path(GOLDEN))
    assert not is_received(GOLDEN)


@pytest.mark.parametrize("digest", [None, "0" * 64])
def test_a_received_file_reads_back(digest):
    received = Received(TEXT, digest)

    assert read_received(write_received(received), "x") == received


def test_a_received_file_is_read_as_a_golden_too():
    assert decode(write_received(Received(TEXT, None)), "x") == decode(TEXT, "x")


def test_the_digest_is_of_the_text_whatever_its_line_ends():
    assert golden_digest(TEXT.encode()) == golden_digest(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert golden_digest(TEXT.encode()) != golden_digest(TEXT.encode() + b"\n")


@pytest.mark.parametrize(
    "text", ["", TEXT, "# received by pytest --fx-received, compared with sha256:12\n", "# received\n" + TEXT]
)
def test_a_file_that_does_not_say_what_it_was_compared_with_is_refused(text):
    with pytest.raises(GoldenFormatError, match=r"cannot read x: its first line does not say which golden"):
        read_received(text, "x")


@pytest.mark.parametrize("version", ["2.13.0", "2.13.1+cpu", "2.13.0a0+git123", "2.13"])
def test_a_variant_serves_all_patch_versions_of_a_minor(version):
    assert variant_path(PurePosixPath("a/t.yaml"), version) == PurePosixPath("a/t@torch-2.13.yaml")


@pytest.mark.parametrize(
    "name", ["t.yaml", "t@torch-2.13.yaml", "t.received.yaml", "t@torch-2.13.received.yaml", "t@torch-10.0.yaml"]
)
def test_variants_and_received_files_belong_to_their_base(name):
    assert base_path(PurePosixPath("a", name)) == PurePosixPath("a/t.yaml")


@pytest.mark.parametrize("name", ["t@torch-2.yaml", "torch-2.13.yaml", "t%40torch-2.13~0123abcd.yaml"])
def test_other_names_are_their_own_base(name):
    assert base_path(PurePosixPath(name)) == PurePosixPath(name)
