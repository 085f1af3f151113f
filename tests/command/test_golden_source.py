from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.documents import document
from pytest_fxgraph.command.golden_source import content_of, looks_like_a_revision, read_bytes
from pytest_fxgraph.command.main import main
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.errors import GoldenError

RELU = encode(document("%x = input x\n%a = torch.relu(%x)\nreturn %a"))
GELU = encode(document("%x = input x\n%a = torch.gelu(%x)\nreturn %a"))


def git(*arguments: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits: in the first a golden is relu and another is there, in the second it is gelu."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    golden = tmp_path / "golden" / "test_é"
    golden.mkdir(parents=True)
    git("init")
    golden.joinpath("test_a.yaml").write_text(RELU)
    golden.joinpath("test_b.yaml").write_text(RELU)
    golden.joinpath("notes.txt").write_text("no golden")
    git("add", ".")
    git("commit", "-m", "first")
    golden.joinpath("test_a.yaml").write_text(GELU)
    golden.joinpath("test_b.yaml").unlink()
    git("add", ".")
    git("commit", "-m", "second")
    return tmp_path


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    return main(list(arguments)), *capsys.readouterr()


def test_a_golden_is_compared_with_what_it_was(capsys):
    status, out, _ = run(capsys, "diff", "HEAD~1:golden/test_é/test_a.yaml", "golden/test_é/test_a.yaml")

    assert status == 1
    assert out.startswith("expected HEAD~1:golden/test_é/test_a.yaml\n")
    assert "torch.relu -> torch.gelu" in out


@pytest.mark.parametrize("after", ["golden", "HEAD:golden", "HEAD:golden/"])
def test_folders_are_compared_with_what_they_were(capsys, after):
    status, out, _ = run(capsys, "diff", "HEAD~1:golden", after)

    assert status == 1
    assert out.startswith("expected HEAD~1:golden/test_é/test_a.yaml\n")
    assert "only in HEAD~1:golden: test_é/test_b.yaml" in out
    assert "notes" not in out


def test_one_revision_is_as_itself(capsys):
    assert run(capsys, "diff", "HEAD:golden", "golden") == (0, "", "")
    assert run(capsys, "diff", ":golden/test_é/test_a.yaml", "HEAD:golden/test_é/test_a.yaml")[0] == 0


def test_a_path_can_be_relative_to_where_one_is(capsys, repository, monkeypatch):
    monkeypatch.chdir(repository / "golden")

    assert run(capsys, "diff", "HEAD:./test_é", "test_é") == (0, "", "")


def test_show_reads_a_revision_even_where_git_would_convert_it(capsys, repository):
    git("config", "diff.fxgraph.textconv", "false")
    repository.joinpath(".gitattributes").write_text("*.yaml diff=fxgraph\n")

    status, out, _ = run(capsys, "show", "HEAD~1:golden/test_é/test_a.yaml")

    assert status == 0
    assert "%a = torch.relu(%x)" in out


DRIVER = 'f() {{ "{python}" -m pytest_fxgraph.command.main diff "$2" "$5"; test $? -le 1; }}; f'


def test_git_diff_says_it_in_words(repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    repository.joinpath(".gitattributes").write_text("golden/**/*.yaml diff=fxgraph\n")
    git("config", "diff.fxgraph.command", DRIVER.format(python=sys.executable))

    result = subprocess.run(["git", "diff", "HEAD~1"], capture_output=True, text=True, check=True)

    assert "torch.relu -> torch.gelu" in result.stdout
    assert "test_b.yaml" in result.stdout
    assert f"there is nothing in {os.devnull} to compare it with" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("name", ["HEAD:nowhere", "nobranch:golden", "HEAD~9:golden", "HEAD:../x", "HEAD:golden\n"])
def test_what_git_does_not_know_is_refused(capsys, name):
    status, out, err = run(capsys, "show", name)

    assert (status, out) == (2, "")
    assert "there is no such file, and git knows no such revision and path here" in err


def test_without_git_revisions_are_refused(capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")

    status, _, err = run(capsys, "show", "HEAD:golden")

    assert status == 2
    assert "cannot ask git: no such file or directory; install git, or give files instead of revisions" in err


@pytest.mark.parametrize(
    ("text", "expected"), [("HEAD:a", True), (":a", True), ("C:\\a", False), ("a.yaml", False), ("--x:a", False)]
)
def test_a_revision_is_known_by_its_colon(text, expected):
    assert looks_like_a_revision(text) is expected


def test_a_revision_alone_is_neither_file_nor_folder(capsys):
    assert run(capsys, "show", ":/second") == (
        2,
        "",
        "fxgraph: cannot read :/second: it is a commit; name a file or folder\n",
    )


def test_an_object_that_git_lost_is_told(capsys, repository):
    found = subprocess.run(["git", "rev-parse", "HEAD:golden/test_é/test_a.yaml"], capture_output=True, check=True)
    lost = found.stdout.decode().strip()
    (repository / ".git" / "objects" / lost[:2] / lost[2:]).unlink()

    status, _, err = run(capsys, "show", "HEAD:golden/test_é/test_a.yaml")

    assert status == 2
    assert "cannot read HEAD:golden/" in err


def test_a_file_without_permission_is_told_with_the_reason(capsys, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    status, _, err = run(capsys, "show", "golden/test_é/test_a.yaml")

    assert status == 2
    assert err.endswith("permission denied; make it readable, or give another file\n")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(GoldenError, match="is a directory; make it readable, or give another file"):
        read_bytes(tmp_path)


def test_content_that_git_lacks_is_told_with_the_name():
    with pytest.raises(GoldenError, match=r"cannot read HEAD:a\.yaml: git does not give its content; try `git fsck`"):
        content_of("0" * 40, "HEAD:a.yaml")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_a_file_with_the_name_of_a_revision_is_read_itself(capsys, repository):
    repository.joinpath("HEAD:a.yaml").write_text(GELU)

    assert "torch.gelu" in run(capsys, "show", "HEAD:a.yaml")[1]


def test_a_folder_with_the_name_of_a_golden_is_none(capsys, repository):
    (repository / "golden" / "test_é" / "test_c.yaml").mkdir()

    assert run(capsys, "diff", "HEAD:golden", "golden") == (0, "", "")


def test_a_file_is_read_up_to_one_byte_above_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.command.golden_source.MOST_BYTES", 10)
    (tmp_path / "large").write_bytes(b"x" * 20)

    assert read_bytes(tmp_path / "large") == b"x" * 11


def test_an_error_without_the_systems_words_has_pythons(tmp_path, monkeypatch):
    (tmp_path / "a.yaml").touch()

    def refuse(*_):
        raise OSError("Odd")

    monkeypatch.setattr(os, "open", refuse)

    with pytest.raises(GoldenError, match=r"cannot read .*: odd; make it readable"):
        read_bytes(tmp_path / "a.yaml")
