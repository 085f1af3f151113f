from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
import time
from datetime import datetime, timezone

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings import place as places
from pytest_fxgraph.recordings.place import Folder, Remote, StoredFile, place_at

fsspec = pytest.importorskip("fsspec")
memory = pytest.importorskip("fsspec.implementations.memory")


class BrokenFiles(memory.MemoryFileSystem):
    """Files in memory behind a connection that a test may break."""

    protocol = "broken"
    is_broken = False

    def cat_file(self, path, **options):
        return self._checked(super().cat_file, path, **options)

    def pipe_file(self, path, value, **options):
        return self._checked(super().pipe_file, path, value, **options)

    def ls(self, path, **options):
        return self._checked(super().ls, path, **options)

    def rm_file(self, path):
        return self._checked(super().rm_file, path)

    def _checked(self, function, *arguments, **options):
        if BrokenFiles.is_broken:
            raise TimeoutError("Connection to the host timed out")
        return function(*arguments, **options)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("broken://", "memory://"))


fsspec.register_implementation("broken", BrokenFiles, clobber=True)


@pytest.fixture
def broken(monkeypatch):
    """A place, and a function that breaks the connection."""
    monkeypatch.setattr(BrokenFiles, "is_broken", False)
    return f"broken://{secrets.token_hex(4)}", lambda: monkeypatch.setattr(BrokenFiles, "is_broken", True)


def test_a_file_comes_back_is_listed_and_removed(place):
    before = time.time()
    files = place_at(place)
    assert files.read("graphs/a.yaml") is None
    assert files.files("graphs") == []

    files.write("graphs/b.yaml", b"longer")
    files.write("graphs/a.yaml", b"old")
    files.write("graphs/a.yaml", b"new\n")

    assert files.read("graphs/a.yaml") == b"new\n"
    assert [(each.path, each.size) for each in files.files("graphs")] == [("graphs/a.yaml", 4), ("graphs/b.yaml", 6)]
    assert all(before - 2 <= each.modified <= time.time() + 2 for each in files.files("graphs"))
    assert [each.shown for each in files.folders()] == [f"{place}/graphs"]
    assert [each.path for each in place_at(place).folders()[0].files("")] == ["a.yaml", "b.yaml"]
    files.remove("graphs/a.yaml")
    files.remove("graphs/a.yaml")
    assert files.read("graphs/a.yaml") is None


def test_a_folder_is_the_same_after_a_change_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = place_at("here")
    monkeypatch.chdir("/")
    files.write("a", b"1")
    assert (tmp_path / "here" / "a").read_bytes() == b"1"


def test_what_cannot_be_appended_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    files = Folder(tmp_path, "here")
    files.write("a", b"1\n")
    real = os.write

    def full(file, content):
        if len(content) > 2:
            return real(file, content[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(RecordingError, match="cannot write here/a: no space left on device; name another folder"):
            files.append("a", b"2345\n")
    assert files.read("a") == b"1\n"
    files.append("a", b"2345\n")
    assert files.read("a") == b"1\n2345\n"


def test_an_index_that_was_removed_meanwhile_does_not_come_back_without_its_beginning(tmp_path):
    with pytest.raises(RecordingError, match="cannot write here/a: no such file or directory"):
        Folder(tmp_path, "here").append("a", b"2")
    assert not (tmp_path / "a").exists()


def test_a_full_disk_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    files = Folder(tmp_path, "here")
    files.write("graphs/a", b"1")

    def refuse(path, content, *, is_synced):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(places, "replace_whole", refuse)
    with pytest.raises(RecordingError, match="cannot write here/graphs/a: no space left on device; name another"):
        files.write("graphs/a", b"2")
    assert files.read("graphs/a") == b"1"


def test_a_file_in_place_of_the_folder_is_an_error_and_stays(tmp_path):
    (tmp_path / "taken").write_text("mine")
    files = Folder(tmp_path / "taken", "taken")
    with pytest.raises(RecordingError, match=r"cannot write taken/index/a: .*; name another folder, make room"):
        files.write("index/a", b"1")
    with pytest.raises(RecordingError, match="cannot list taken/index: not a directory"):
        files.files("index")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda files: files.write("a/b", b"2"), "cannot write PLACE/a/b"),
        (lambda files: files.read("a/b"), "cannot read PLACE/a/b"),
        (lambda files: files.files("a"), "cannot list PLACE/a"),
        (lambda files: files.folders(), "cannot list PLACE"),
        (lambda files: files.remove("a/b"), "cannot remove PLACE/a/b"),
    ],
)
def test_a_broken_connection_is_told_with_the_file(broken, action, words):
    url, break_connection = broken
    files = place_at(url)
    files.write("a/b", b"1")
    break_connection()
    with pytest.raises(RecordingError) as caught:
        action(files)
    assert str(caught.value) == (
        f"{words.replace('PLACE', url)}: connection to the host timed out; "
        "check the address, the connection and your rights there"
    )


def test_a_place_needs_a_name_and_a_file_system_that_is_known():
    with pytest.raises(RecordingError, match="cannot use '' as the place of a recording: name a folder or a URL"):
        place_at("")
    with pytest.raises(RecordingError, match=r"cannot use nothing://x as the place of a recording: .*; name a folder"):
        place_at("nothing://x")


def test_a_missing_library_is_named_with_the_extra():
    code = (
        "import sys; sys.modules['s3fs'] = None; from pytest_fxgraph.recordings.place import place_at\n"
        "try: place_at('s3://b')\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == (
        'cannot use s3://b as the place of a recording: Install s3fs to access S3; pip install "pytest-fxgraph[s3]"'
    )


def test_a_password_is_not_shown():
    assert place_at("memory://user:word@host/a").shown == "memory://host/a"


def test_a_bucket_that_does_not_exist_is_an_error_and_is_not_made(bucket):
    with pytest.raises(RecordingError, match=r"cannot write s3://not-there/a/b: .*bucket does not exist"):
        place_at("s3://not-there").write("a/b", b"1")
    with pytest.raises(RecordingError, match="cannot write s3://not-there/a/b"):
        place_at("s3://not-there").write("a/b", b"1")


def test_a_file_system_with_folders_gets_its_folders(tmp_path):
    local = pytest.importorskip("fsspec.implementations.local")

    class Mounted(local.LocalFileSystem):
        protocol = "mounted"
        local_file = False

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("mounted://"))

    fsspec.register_implementation("mounted", Mounted, clobber=True)
    place_at(f"mounted://{tmp_path}/x").write("graphs/a", b"1")
    assert (tmp_path / "x" / "graphs" / "a").read_bytes() == b"1"


class Listing:
    """A file system that lists given details."""

    protocol = ("made", "up")

    def __init__(self, *details):
        self.details, self.made = details, []

    def invalidate_cache(self):
        pass

    def ls(self, path, detail):
        assert (path, detail) == ("root/graphs", True)
        return self.details

    def pipe_file(self, path, content):
        if not self.made:
            raise FileNotFoundError("the bucket does not exist")

    def makedirs(self, folder, exist_ok):
        self.made.append((folder, exist_ok))


@pytest.mark.parametrize(
    ("details", "modified"),
    [
        ({"mtime": 12.5, "created": 1.0}, 12.5),
        ({"mtime": 0, "created": 1.0}, 0.0),
        ({"mtime": None, "updated": "1970-01-01T00:01:00Z"}, 60.0),
        ({"last_modified": "1970-01-01T01:00:00+01:00"}, 0.0),
        ({"LastModified": datetime(1970, 1, 2, tzinfo=timezone.utc)}, 86400.0),
    ],
)
def test_the_time_of_a_listed_file_has_many_names(details, modified):
    files = Remote(Listing({"name": "root/graphs/a", "type": "file", "size": 3, **details}), "root/", "made://root")
    assert files.files("graphs") == [StoredFile("graphs/a", 3, modified)]


def test_a_file_without_a_time_counts_as_new_and_without_a_size_as_empty():
    before = time.time()
    files = Remote(Listing({"name": "root/graphs/a", "type": "file", "size": None}), "root", "made://root")
    (found,) = files.files("graphs")
    assert found.size == 0
    assert before <= found.modified <= time.time()


def test_a_folder_is_no_file_of_its_own_listing():
    entry = {"type": "file", "size": 1, "mtime": 1.0}
    listing = [{**entry, "name": "/root/graphs/"}, {**entry, "name": "root/graphs/a"},
               {"name": "root/graphs/more/", "type": "directory", "size": 0}]  # fmt: skip
    files = Remote(Listing(*listing), "root", "made://root")
    assert [each.path for each in files.files("graphs")] == ["graphs/a"]


@pytest.mark.parametrize("protocol", ["s3", ("gcs", "gs"), "made", ("made", "up")])
def test_a_file_system_without_folders_gets_none(protocol):
    listing = Listing()
    listing.protocol = protocol
    files = Remote(listing, "root", "made://root")
    if "made" in protocol:
        files.write("graphs/a", b"1")
        assert listing.made == [("root/graphs", True)]
    else:
        with pytest.raises(RecordingError, match="cannot write made://root/graphs/a: the bucket does not exist"):
            files.write("graphs/a", b"1")
        assert listing.made == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EACCES, "Permission denied"), "cannot read made://root/a: permission denied; "),
        (TimeoutError("Too LATE"), "cannot read made://root/a: too LATE; "),
        (TimeoutError(), "cannot read made://root/a: timeoutError; "),
        (RecordingError("as it is"), "as it is"),
    ],
)
def test_an_error_of_a_client_is_told_in_its_words(error, words):
    class Broken(Listing):
        def cat_file(self, path):
            raise error

    with pytest.raises(RecordingError) as caught:
        Remote(Broken(), "root", "made://root/").read("a")
    assert str(caught.value).startswith(words)


def test_a_missing_library_of_another_file_system_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(RecordingError, match=r"cannot use gs://b as the place .*; install the library of its file"):
        place_at("gs://b")


def test_the_rest_of_a_short_write_follows(tmp_path, monkeypatch):
    files = Folder(tmp_path, "here")
    files.write("a", b"1\n")
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, content: real(file, content[:2]))
    files.append("a", b"23456")
    assert files.read("a") == b"1\n23456"


def test_entries_come_in_the_order_of_their_names(tmp_path):
    files = Folder(tmp_path, "here")
    for name in ("b/z", "a/y", "x", "a/b/c"):
        files.write(name, b"1")
    assert [each.shown for each in files.folders()] == ["here/a", "here/b"]
    assert [each.path for each in files.files("")] == ["x"]
    assert [each.path for each in files.files("a")] == ["a/y"]
    assert files.files("missing") == Folder(tmp_path / "missing", "no").folders() == []


def test_a_folder_imports_no_fsspec():
    code = (
        "import sys; from pytest_fxgraph.recordings.place import place_at; place_at('x').files(''); "
        "print([name for name in ('fsspec', 'torch', 's3fs') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
