"""A test file has to be what it was when collected, any other file older than the run."""

from __future__ import annotations

import os

from pytest_fxgraph.gate.inline_digests import SourceDigests, source_digest


def test_a_collected_file_has_to_be_what_it_was(tmp_path):
    path = tmp_path / "test_a.py"
    path.write_bytes(b"x = 1\r\n")
    digests = SourceDigests()
    digests.pytest_pycollect_makemodule(path)

    assert digests.is_unchanged(path, source_digest(b"x = 1\r\n"))
    assert not digests.is_unchanged(path, source_digest(b"x = 1\n"))


def test_any_other_file_has_to_be_older_than_the_run(tmp_path):
    path = tmp_path / "helper.py"
    path.write_bytes(b"x = 1")
    os.utime(path, (1, 1))
    digests = SourceDigests()

    assert digests.is_unchanged(path, "whatever")
    os.utime(path, (2**33, 2**33))
    assert not digests.is_unchanged(path, "whatever")


def test_a_file_that_could_not_be_read_is_unchanged_by_nothing(tmp_path):
    digests = SourceDigests()
    digests.pytest_pycollect_makemodule(tmp_path / "test_a.py")
    (tmp_path / "test_a.py").write_bytes(b"")

    assert not digests.is_unchanged(tmp_path / "test_a.py", source_digest(b""))
