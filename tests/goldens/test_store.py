from __future__ import annotations

import errno
import os
import stat
from pathlib import PurePosixPath

import pytest

from pytest_fxgraph.errors import GoldenFormatError, GoldenMissingError, GoldenNameError, GoldenWriteError, ReportError
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.goldens.store import TEMPORARY_SUFFIX, GoldenStore, rank_variants, write_whole


@pytest.fixture
def store(tmp_path):
    return GoldenStore(tmp_path / "golden")


def files_in(store):
    return sorted(path.relative_to(store.root).as_posix() for path in store.root.rglob("*") if not path.is_dir())


def test_what_is_written_is_read_back(store):
    assert not store.exists("a/b.yaml")

    assert store.write("a/b.yaml", "text \u00e9\n") is True

    assert store.exists("a/b.yaml")
    assert store.read("a/b.yaml") == "text \u00e9\n"
    assert (store.root / "a/b.yaml").read_bytes() == b"text \xc3\xa9\n"
    assert files_in(store) == ["a/b.yaml"]


def test_the_same_text_is_not_written_again(store):
    store.write("a.yaml", "text\n")
    before = (store.root / "a.yaml").stat()

    assert store.write("a.yaml", "text\n") is False

    after = (store.root / "a.yaml").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_new_file_has_the_mode_of_every_new_file_and_an_old_one_keeps_its_own(store):
    store.write("a.yaml", "1")
    plain = store.root / "plain"
    plain.touch()
    assert (store.root / "a.yaml").stat().st_mode == plain.stat().st_mode

    (store.root / "a.yaml").chmod(0o640)
    store.write("a.yaml", "2")

    assert stat.S_IMODE((store.root / "a.yaml").stat().st_mode) == 0o640


def test_line_ends_of_windows_and_a_bom_are_read_as_if_they_were_not_there(store):
    store.write("a.yaml", "")
    (store.root / "a.yaml").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")

    assert store.read("a.yaml") == "one\ntwo\n"


def test_a_missing_golden_is_an_error_of_its_own(store):
    with pytest.raises(GoldenMissingError, match=r"there is no golden file .*a.yaml; .*pytest --fx-update-golden"):
        store.read("a.yaml")

    store.write("a.yaml", "a file, not a folder")
    with pytest.raises(GoldenMissingError):
        store.read("a.yaml/b.yaml")


def test_what_is_no_text_is_refused_with_its_line(store):
    store.write("a.yaml", "")
    (store.root / "a.yaml").write_bytes(b"one\n\xff")

    with pytest.raises(GoldenFormatError, match=r"a.yaml, line 2: it is not UTF-8 text .byte 4.*restore it"):
        store.read("a.yaml")


def test_a_folder_and_a_pipe_are_no_golden(store):
    (store.root / "folder.yaml").mkdir(parents=True)
    os.mkfifo(store.root / "pipe.yaml")

    with pytest.raises(GoldenFormatError, match=r"folder.yaml: it is a folder; remove it"):
        store.read("folder.yaml")
    with pytest.raises(GoldenFormatError, match=r"pipe.yaml: it is no regular file"):
        store.read("pipe.yaml")
    with pytest.raises(GoldenWriteError, match=r"folder.yaml: it is a folder; nothing was changed"):
        store.write("folder.yaml", "text")


@pytest.mark.parametrize("name", ["../a.yaml", "a/../../b.yaml", "/etc/a.yaml", "", ".", "C:/a.yaml", "a\\b", "a\0b"])
def test_a_path_that_leaves_the_folder_is_refused(store, name):
    for use in (store.read, store.exists, lambda relative: store.write(relative, "text")):
        with pytest.raises(GoldenNameError, match="as a golden file"):
            use(name)


def test_links_that_lead_out_of_the_folder_are_refused(store, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.yaml").write_text("theirs")
    store.root.mkdir()
    (store.root / "a").symlink_to(outside)
    (store.root / "c.yaml").symlink_to(outside / "b.yaml")

    for name in ("a/b.yaml", "a/new.yaml", "c.yaml"):
        with pytest.raises(GoldenNameError, match=r"links lead it to .*outside"):
            store.write(name, "ours")
        with pytest.raises(GoldenNameError, match=r"links lead it to .*outside"):
            store.read(name)
    assert (outside / "b.yaml").read_text() == "theirs"
    assert [path.name for path in outside.iterdir()] == ["b.yaml"]


def test_links_to_another_drive_are_refused(store, tmp_path, monkeypatch):
    def refuse(paths):
        raise ValueError("Paths don't have the same drive")

    store.root.mkdir()
    (store.root / "a.yaml").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("os.path.commonpath", refuse)

    with pytest.raises(GoldenNameError, match="links lead it to"):
        store.write("a.yaml", "ours")


def test_a_link_within_the_folder_is_kept_and_its_target_replaced(store):
    store.write("a.yaml", "old")
    (store.root / "b.yaml").symlink_to("a.yaml")

    store.write("b.yaml", "new")

    assert (store.root / "b.yaml").is_symlink()
    assert store.read("a.yaml") == "new"


def test_a_folder_that_is_a_link_itself_is_a_golden_folder_like_any_other(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "golden").symlink_to("real")

    GoldenStore(tmp_path / "golden").write("a.yaml", "text")

    assert (tmp_path / "real/a.yaml").read_text() == "text"


def test_links_that_go_round_in_circles_are_refused(store):
    store.root.mkdir()
    (store.root / "a.yaml").symlink_to("b.yaml")
    (store.root / "b.yaml").symlink_to("a.yaml")

    with pytest.raises(GoldenFormatError, match=r"a.yaml: too many levels of symbolic links"):
        store.read("a.yaml")
    with pytest.raises(GoldenWriteError, match=r"a.yaml: too many levels of symbolic links; nothing was changed"):
        store.write("a.yaml", "text")


def test_a_file_that_stands_where_a_folder_is_needed_is_named(store):
    store.write("a", "a file")

    words = r"cannot write the golden file .*a/b.yaml: (not a directory|file exists); .*; move what lies in its place"
    with pytest.raises(GoldenWriteError, match=words):
        store.write("a/b.yaml", "text")


def test_half_a_surrogate_pair_is_not_written(store):
    store.write("a.yaml", "old")

    with pytest.raises(GoldenWriteError, match="cannot be stored as UTF-8"):
        store.write("a.yaml", "\ud800")

    assert store.read("a.yaml") == "old"


STEPS = {
    "mkdir": ("pathlib.Path.mkdir", errno.EACCES, "permission denied"),
    "open": ("builtins.open", errno.EROFS, "read-only file system"),
    "sync": ("os.fsync", errno.ENOSPC, "no space left on device"),
    "replace": ("os.replace", errno.EPERM, "operation not permitted"),
}


@pytest.mark.parametrize("step", STEPS)
def test_whichever_step_of_writing_fails_the_old_file_is_whole_and_nothing_is_left_behind(store, monkeypatch, step):
    name, number, words = STEPS[step]
    store.write("a.yaml", "old")

    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(name, fail)
        with pytest.raises(GoldenWriteError, match=f"a.yaml: {words}; nothing was changed.*run the same command again"):
            store.write("a.yaml", "new")

    assert store.read("a.yaml") == "old"
    assert files_in(store) == ["a.yaml"]


@pytest.mark.parametrize("step", ["write", "flush"])
def test_a_disk_that_fills_up_while_writing_leaves_the_old_file_whole(store, monkeypatch, step):
    store.write("a.yaml", "old")
    real_open = open

    def opening(path, mode):
        file = real_open(path, mode)
        return FullDisk(file, step)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", opening)
        with pytest.raises(GoldenWriteError, match="no space left on device"):
            store.write("a.yaml", "new")

    assert store.read("a.yaml") == "old"
    assert files_in(store) == ["a.yaml"]


class FullDisk:
    """A file that fails at one step, with some of the content written."""

    def __init__(self, file, step):
        self._file = file
        self._step = step

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def write(self, content):
        self._file.write(content[: len(content) // 2])
        self._fail_at("write")

    def flush(self):
        self._file.flush()
        self._fail_at("flush")

    def fileno(self):
        return self._file.fileno()

    def _fail_at(self, step):
        if step == self._step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_interrupted_run_leaves_the_old_file_and_no_other(store, monkeypatch):
    store.write("a.yaml", "old")

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.write("a.yaml", "new")

    assert store.read("a.yaml") == "old"
    assert files_in(store) == ["a.yaml"]


def test_what_a_killed_run_leaves_behind_is_beside_the_golden_and_named_as_temporary(store, monkeypatch):
    store.write("a.yaml", "old")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", _killed)
        patch.setattr("pathlib.Path.unlink", lambda self: None)  # a killed process clears nothing up
        with pytest.raises(SystemExit):
            store.write("a.yaml", "new")

    left, golden = files_in(store)
    assert golden == "a.yaml"
    assert left.startswith(".")
    assert left.endswith(TEMPORARY_SUFFIX)
    assert store.read("a.yaml") == "old"


def test_a_read_only_file_is_not_replaced(store, monkeypatch):
    store.write("a.yaml", "old")
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write whatever the mode says

    with pytest.raises(GoldenWriteError, match="the file is read-only"):
        store.write("a.yaml", "new")

    assert store.read("a.yaml") == "old"


def _killed(*args):
    raise SystemExit(9)


def test_a_copy_is_equal_to_the_byte(store):
    store.write("a/b.yaml", "")
    (store.root / "a/b.yaml").write_bytes(b"\xef\xbb\xbfformat: 1\r\n")

    assert store.copy("a/b.yaml", "c/d.yaml") is True
    assert store.copy("a/b.yaml", "c/d.yaml") is False

    assert (store.root / "c/d.yaml").read_bytes() == (store.root / "a/b.yaml").read_bytes()
    assert files_in(store) == ["a/b.yaml", "c/d.yaml"]


def test_what_cannot_be_copied_changes_nothing(store):
    store.write("a.yaml", "text\n")

    with pytest.raises(GoldenMissingError):
        store.copy("b.yaml", "a.yaml")
    with pytest.raises(GoldenNameError):
        store.copy("a.yaml", "../a.yaml")

    assert store.read("a.yaml") == "text\n"


def test_the_reason_of_a_failed_replacement_is_told_once(tmp_path, monkeypatch):
    def refuse(path, content):
        raise PermissionError(13, "the file is read-only")

    (tmp_path / "a.yaml").write_text("old", encoding="utf-8")
    monkeypatch.setattr("pytest_fxgraph.goldens.store.replace_whole", refuse)

    with pytest.raises(GoldenWriteError) as told:
        GoldenStore(tmp_path).replace("a.yaml", "new", golden_digest(b"old"))

    assert str(told.value).count("cannot write the golden file") == 1
    assert "a.yaml: the file is read-only; nothing was changed" in str(told.value)


def test_a_golden_that_is_too_large_is_not_read(store, monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.goldens.store.MOST_BYTES", 2 * 2**20)
    store.write("a.yaml", "x" * 2 * 2**20)
    store.write("b.yaml", "x" * (2 * 2**20 + 1))

    assert store.read("a.yaml")
    with pytest.raises(GoldenFormatError, match=r"cannot read the golden file .*b.yaml: it is larger than 2 MiB; rest"):
        store.read("b.yaml")


def test_a_copy_goes_into_a_folder_that_is_there_and_into_a_new_one(store):
    store.write("a.yaml", "one\n")

    for target in ("folder/b.yaml", "folder/c.yaml", "new/deep/d.yaml"):
        assert store.copy("a.yaml", target)
        assert not store.copy("a.yaml", target)
        assert store.path(target).read_text(encoding="utf-8") == "one\n"


def test_the_variants_of_a_golden_are_those_of_its_name_that_serve_ranks(store):
    for name in ("test_f.yaml", "test_f@ranks-1-2.yaml", "test_fg@ranks-1.yaml", "test_f@ranks-3.received.yaml"):
        store.write(f"test_x/{name}", "text\n")
    golden = PurePosixPath("test_x/test_f.yaml")

    assert rank_variants(store, golden) == {golden.with_name("test_f@ranks-1-2.yaml"): {1, 2}}
    assert rank_variants(store, golden, received=True) == {golden.with_name("test_f@ranks-3.yaml"): {3}}
    assert rank_variants(store, PurePosixPath("nowhere/test_f.yaml")) == {}


def test_a_removed_golden_takes_the_folders_along_that_it_leaves_empty(store):
    for name in ("a/b/c/one.yaml", "a/b/two.yaml", "three.yaml"):
        store.write(name, "text")

    assert store.remove("a/b/c/one.yaml") is True
    assert not (store.root / "a/b/c").exists()
    assert files_in(store) == ["a/b/two.yaml", "three.yaml"]

    assert store.remove("a/b/two.yaml") is True
    assert [path.name for path in store.root.iterdir()] == ["three.yaml"]

    assert store.remove("three.yaml") is True
    assert store.root.is_dir()  # which is the user's


def test_a_golden_that_is_not_there_was_not_removed(store):
    assert store.remove("a/b.yaml") is False


def test_a_write_of_what_a_golden_holds_is_none(store):
    assert store.write("a.yaml", "text") is True
    before = (store.root / "a.yaml").stat()

    assert store.write("a.yaml", "text") is False
    assert (store.root / "a.yaml").stat().st_ino == before.st_ino
    assert store.copy("a.yaml", "b.yaml") is True
    assert store.copy("a.yaml", "b.yaml") is False


def test_a_link_out_of_the_folder_is_refused_by_the_question_whether_a_file_exists(store, tmp_path):
    (tmp_path / "outside.yaml").touch()
    store.root.mkdir()
    (store.root / "a.yaml").symlink_to(tmp_path / "outside.yaml")
    (store.root / "b.yaml").symlink_to(store.root / "gone.yaml")

    with pytest.raises(GoldenNameError, match="links lead it to"):
        store.exists("a.yaml")
    assert store.exists("b.yaml")
    assert not store.exists("c.yaml")


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(5, "Input/output error"), "input/output error"), (OSError("Odd"), "odd"), (OSError(), "oserror")],
)
def test_the_reason_of_a_failure_is_the_systems_or_pythons(store, monkeypatch, error, reason):
    store.write("a.yaml", "text\n")

    def refuse(self):
        raise error

    monkeypatch.setattr("pathlib.Path.unlink", refuse)

    with pytest.raises(GoldenWriteError, match=f"cannot remove .*: {reason}; give permission"):
        store.remove("a.yaml")


def test_a_golden_is_replaced_if_it_is_the_compared_one_or_has_the_text_already(store):
    assert store.replace("a.yaml", "one\n", None) is True
    assert store.replace("a.yaml", "two\n", None) is False
    assert store.read("a.yaml") == "one\n"
    assert store.replace("a.yaml", "one\n", golden_digest(b"gone\n")) is True
    assert store.replace("a.yaml", "two\n", golden_digest(b"one\n")) is True
    assert store.read("a.yaml") == "two\n"


def test_a_report_is_written_with_all_its_folders_and_errors_name_it(tmp_path):
    write_whole(tmp_path / "a/b/report.md", "text\ud800\n", "report")

    assert (tmp_path / "a/b/report.md").read_bytes() == b"text\\ud800\n"
    for shown_as, named in ((None, str(tmp_path / "a/b")), ("a/b", "a/b")):
        with pytest.raises(
            ReportError, match=f"cannot write the report {named}: it is a folder; move what lies in its"
        ):
            write_whole(tmp_path / "a/b", "text\n", "report", shown_as=shown_as)


def test_a_colon_is_refused_where_it_names_a_drive(store):
    assert not store.exists("test_a/x:y.yaml")
    assert not store.exists("xy:z.yaml")
    with pytest.raises(GoldenNameError, match="it is not a path below"):
        store.exists("c:x.yaml")
