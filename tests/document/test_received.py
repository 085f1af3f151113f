from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.received import (
    Received,
    golden_digest,
    golden_of_received,
    is_received,
    read_received,
    received_path,
    write_received,
)
from pytest_fxgraph.errors import GoldenFormatError

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
