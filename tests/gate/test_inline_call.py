"""Where a call of fx_golden.inline stands, and whether its file is as it was when collected."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from pytest_fxgraph.errors import GoldenWriteError
from pytest_fxgraph.gate.inline_call import (
    COLLECTED_SOURCES,
    CollectedSources,
    InlineCall,
    call_at,
    first_line_of,
    place_of,
    source_digest,
)


class Golden:
    def inline(self, text=None):
        return call_at(sys._getframe(1), text)


g = Golden()


def test_a_call_knows_its_line_and_where_python_tells_its_end():
    call = g.inline(
        "text",
    )

    assert call.file == __file__
    assert call.line == call_at(sys._getframe(), None).line - 5
    assert call.end == ((call.line + 2, 5) if sys.version_info >= (3, 11) else None)
    assert call.text == "text"


def test_byte_code_that_was_copied_names_the_file_of_its_module():
    names = {"g": g, "__file__": "/here/test_a.py"}

    exec(compile("call = g.inline()", "/elsewhere/test_a.py", "exec"), names)
    assert names["call"].file == "/here/test_a.py"

    exec(compile("call = g.inline()", "<string>", "exec"), names)
    assert names["call"].file == "<string>"


@pytest.fixture
def config(tmp_path):
    return SimpleNamespace(rootpath=tmp_path, stash=pytest.Stash())


def written(config, name="test_a.py", text="x = g.inline('''\na\n''')\n"):
    path = config.rootpath / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_place_is_relative_to_rootdir_and_holds_the_digest_of_the_file(config):
    path = written(config, "tests/test_a.py")

    place = place_of(InlineCall(str(path), 1, (3, 4), "\na\n"), config)

    assert (place.file, place.end) == ("tests/test_a.py", (3, 4))
    assert place.digest == source_digest(path.read_bytes())
    assert first_line_of(InlineCall(str(path), 1, (3, 4), "\na\n"), config) == 1


def test_python_before_3_11_finds_the_call_by_its_line(config):
    path = written(config)

    assert place_of(InlineCall(str(path), 1, None, "\na\n"), config).end == (3, 4)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("<doctest a[0]>", "its code is in no file, but was made while the tests ran"),
        ("gone.py", "its code is in no file, but was made while the tests ran"),
        ("../other.py", "its file is not one of the project in"),
        ("venv/site-packages/a.py", "its file is not one of the project in"),
        ("a.zip/a.py", "it lies in an archive"),
    ],
)
def test_what_is_no_file_of_the_project_is_refused(config, file, reason):
    written(config, "a.zip")
    written(config, "../other.py")
    written(config, "venv/site-packages/a.py")

    with pytest.raises(GoldenWriteError, match=reason):
        place_of(InlineCall(file if file[0] == "<" else str(config.rootpath / file), 1, (3, 4), "\na\n"), config)
    assert first_line_of(InlineCall(file, 1, (3, 4), "\na\n"), config) is None


def test_a_file_that_cannot_be_read_is_refused(config):
    (config.rootpath / "test_a.py").mkdir()

    with pytest.raises(GoldenWriteError, match=r"its file cannot be read \(is a directory\); make it readable"):
        place_of(InlineCall(str(config.rootpath / "test_a.py"), 1, (3, 4), "a"), config)


def test_a_file_that_was_changed_is_refused(config):
    path = written(config)
    config.stash[COLLECTED_SOURCES] = CollectedSources()
    config.stash[COLLECTED_SOURCES].pytest_pycollect_makemodule(path)
    collected = place_of(InlineCall(str(path), 1, (3, 4), "\na\n"), config)

    written(config, text="# moved\nx = g.inline('''\nb\n''')\n")  # another run may write another text
    assert place_of(InlineCall(str(path), 1, (3, 4), "\na\n"), config) == collected

    written(config, text="x = g.inline('''\na\n''')\ny = 1\n")

    with pytest.raises(GoldenWriteError, match="the file was changed since its tests were collected; run them again"):
        place_of(InlineCall(str(path), 1, (3, 4), "\na\n"), config)


def test_a_project_may_be_reached_through_a_link(config, tmp_path_factory):
    written(config, "tests/test_a.py")
    link = tmp_path_factory.mktemp("links") / "project"
    link.symlink_to(config.rootpath)

    assert place_of(InlineCall(str(link / "tests/test_a.py"), 1, (3, 4), "\na\n"), config).file == "tests/test_a.py"


def test_a_collected_file_is_read_as_it_was(tmp_path):
    path = tmp_path / "test_a.py"
    path.write_bytes(b"x = 1\r\n")
    sources = CollectedSources()
    sources.pytest_pycollect_makemodule(path)

    assert sources.content_of(path, b"x = 2") == b"x = 1\r\n"


def test_any_other_file_has_to_be_older_than_the_run(tmp_path):
    path = tmp_path / "helper.py"
    path.write_bytes(b"x = 1")
    os.utime(path, (1, 1))
    sources = CollectedSources()

    assert sources.content_of(path, b"x = 1") == b"x = 1"
    os.utime(path, (2**33, 2**33))
    assert sources.content_of(path, b"x = 1") is None


def test_a_file_that_could_not_be_read_was_changed(tmp_path):
    sources = CollectedSources()
    sources.pytest_pycollect_makemodule(tmp_path / "test_a.py")
    (tmp_path / "test_a.py").write_bytes(b"")

    assert sources.content_of(tmp_path / "test_a.py", b"") is None


def test_a_call_is_shown_by_its_file_from_rootdir_or_by_the_name_of_made_up_code(tmp_path):
    assert InlineCall(str(tmp_path / "tests/test_a.py"), 3, None, None).shown_in(tmp_path) == "tests/test_a.py:3"
    assert InlineCall("<string>", 3, None, None).shown_in(tmp_path) == "<string>:3"


@pytest.mark.parametrize(("age", "is_unchanged"), [(1, True), (0, True), (-1, False)])
def test_a_file_that_was_not_collected_is_unchanged_if_the_run_began_after_it(tmp_path, age, is_unchanged):
    path = tmp_path / "helper.py"
    path.write_bytes(b"x = 1\n")
    sources = CollectedSources()
    sources._began = path.stat().st_mtime_ns + age

    assert sources.content_of(path, b"x = 1\n") == (b"x = 1\n" if is_unchanged else None)
