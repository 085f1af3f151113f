from __future__ import annotations

import subprocess

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.revisions import Repository


@pytest.fixture
def repository(git_folder):
    return Repository.around(git_folder.path)


@pytest.fixture(autouse=True)
def no_pull_request(monkeypatch):
    monkeypatch.delenv("GITHUB_BASE_REF", raising=False)


def everything(folder):
    """Return each file with its content and time, git's own files included."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_commit_is_written_out_and_nothing_else_changes(git_folder, tmp_path):
    first = git_folder.commit({"a.py": "1", "inner/b.py": "2", ".gitattributes": "inner export-ignore"})
    git_folder.commit({"a.py": "3"})
    git_folder.write({"a.py": "not staged", "new.py": "untracked"})
    before = everything(git_folder.path)

    Repository.around(git_folder.path / "inner").write_out(first, tmp_path / "out")

    written = {path.name: path.read_text() for path in (tmp_path / "out").rglob("*.py")}
    assert written == {"a.py": "1", "b.py": "2"}
    assert everything(git_folder.path) == before


def test_a_commit_is_written_over_files_that_are_there(git_folder, repository, tmp_path):
    first, second = (git_folder.commit({"a.py": text}) for text in "12")

    for commit in (first, second):
        repository.write_out(commit, tmp_path / "deep/out")

    assert (tmp_path / "deep/out/a.py").read_text() == "2"


def test_a_commit_has_its_short_hash_and_its_subject_as_title(git_folder, repository):
    commit = git_folder.commit({"a.py": "1"}, "the subject\n\nthe reason")

    short, _, subject = repository.title(commit).partition(" ")
    assert commit.startswith(short)
    assert subject == "the subject"


def test_a_commit_that_git_cannot_read_is_an_error_with_its_words(git_folder, repository, tmp_path):
    git_folder.commit({"a.py": "1"})

    with pytest.raises(RecordingError, match=r"git read-tree failed in .*: fatal: [^;]*no-such-commit"):
        repository.write_out("no-such-commit", tmp_path / "out")


def test_a_submodule_comes_at_its_commit(git_folder, new_git_folder, tmp_path):
    inner = new_git_folder("inner")
    inner.commit({"part.py": "old"})
    git_folder.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "part")
    git_folder.git("update-index", "--add", "--cacheinfo", f"160000,{'ab' * 20},absent")
    (git_folder.path / "absent").mkdir()  # not checked out
    first = git_folder.commit({})
    part = inner.commit({"part.py": "new"})
    git_folder.git("-C", "part", "pull", "-q")
    second = git_folder.commit({})

    repository = Repository.around(git_folder.path)
    repository.write_out(first, tmp_path / "first")
    repository.write_out(second, tmp_path / "second")

    assert (tmp_path / "first/part/part.py").read_text() == "old"
    assert (tmp_path / "second/part/part.py").read_text() == "new"
    assert len(part) == 40


def test_a_submodule_that_is_not_checked_out_stays_empty(git_folder, tmp_path):
    git_folder.commit({"a.py": "1"})
    git_folder.git("update-index", "--add", "--cacheinfo", f"160000,{'ab' * 20},part")
    git_folder.git("commit", "-qm", "a submodule")
    repository = Repository.around(git_folder.path)

    repository.write_out(repository.commit("HEAD"), tmp_path / "empty")

    assert [*(tmp_path / "empty/part").iterdir()] == []
    subprocess.run(["git", "init", "-q", git_folder.path / "part"], check=True)
    with pytest.raises(RecordingError, match=r"cannot write out the submodule part: .*git -C part fetch"):
        repository.write_out(repository.commit("HEAD"), tmp_path / "lost")


def test_the_base_is_where_the_branch_left_the_default_branch(git_folder):
    base = git_folder.commit({"a.py": "1"})
    git_folder.git("checkout", "-q", "-b", "change")
    git_folder.commit({"a.py": "2"})
    git_folder.git("checkout", "-q", "main")
    git_folder.commit({"b.py": "3"})
    git_folder.git("checkout", "-q", "--detach", "change")

    assert Repository.around(git_folder.path).merge_base() == (base, "main")


def test_the_target_of_a_pull_request_is_the_default_branch(git_folder, monkeypatch):
    base = git_folder.commit({"a.py": "1"})
    git_folder.git("update-ref", "refs/remotes/origin/release", base)
    git_folder.commit({"a.py": "2"})
    monkeypatch.setenv("GITHUB_BASE_REF", "release")

    assert Repository.around(git_folder.path).merge_base() == (base, "origin/release")


def test_the_branch_that_the_origin_names_precedes_the_usual_ones(git_folder, monkeypatch):
    base = git_folder.commit({"a.py": "1"})
    git_folder.git("update-ref", "refs/remotes/origin/trunk", base)
    git_folder.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    git_folder.commit({"a.py": "2"})
    monkeypatch.setenv("GITHUB_BASE_REF", "")

    assert Repository.around(git_folder.path).merge_base() == (base, "origin/trunk")


def test_a_shallow_clone_without_merge_base_says_how_to_get_it(git_folder, tmp_path):
    git_folder.commit({"a.py": "1"})
    git_folder.git("checkout", "-q", "-b", "change")
    git_folder.commit({"a.py": "2"})
    git_folder.git("checkout", "-q", "main")
    git_folder.commit({"a.py": "3"})
    clone = tmp_path / "clone"
    options = ["--depth=1", "--no-single-branch", "--branch=change"]
    subprocess.run(["git", "clone", "-q", *options, git_folder.path.as_uri(), clone], check=True)

    with pytest.raises(RecordingError, match=r"the clone of .* is shallow; get all commits with git fetch --unshallow"):
        Repository.around(clone).merge_base()
    with pytest.raises(RecordingError, match=r"cannot find the revision HEAD~1 .* git fetch --unshallow"):
        Repository.around(clone).commit("HEAD~1")


def test_a_repository_without_a_default_branch_asks_for_the_base(git_folder):
    git_folder.commit({"a.py": "1"})
    git_folder.git("branch", "-m", "trunk")

    with pytest.raises(RecordingError, match=r"there is none of .*origin/main.*; fetch it, or name the base"):
        Repository.around(git_folder.path).merge_base()


def test_branches_without_a_common_commit_ask_for_the_base(git_folder):
    git_folder.commit({"a.py": "1"})
    git_folder.git("checkout", "-q", "--orphan", "other")
    git_folder.commit({"a.py": "2"})

    with pytest.raises(
        RecordingError, match="cannot find the merge base with main: they share no commit; name the base"
    ):
        Repository.around(git_folder.path).merge_base()


def test_folders_without_git_or_commit_are_errors(tmp_path, git_folder, monkeypatch):
    with pytest.raises(RecordingError, match=r"not a git repository.*; mend it, or record both sides with"):
        Repository.around(tmp_path)
    with pytest.raises(RecordingError, match=r"cannot find the revision HEAD in .*: git knows none"):
        Repository.around(git_folder.path).merge_base()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecordingError, match=r"cannot ask git about .*: no such file or directory; install git"):
        Repository.around(tmp_path)


def test_a_checkout_is_changed_by_edits_new_files_and_commits(git_folder):
    first = git_folder.commit({"a.py": "1", ".gitignore": "made.py"})
    repository = Repository.around(git_folder.path)
    git_folder.write({"made.py": "generated"})
    assert not repository.is_changed(first)
    git_folder.write({"a.py": "edited"})
    assert repository.is_changed(first)

    git_folder.write({"new.py": "1"})
    assert repository.is_changed(first)
    git_folder.commit({})
    assert repository.is_changed(first)


def test_generated_files_are_those_that_git_ignores_one_by_one(git_folder):
    git_folder.commit({".gitignore": "_version.py\nvenv/\n*.pyc\n", "a/b.py": "1"})
    git_folder.write({"a/_version.py": "1", "venv/x.py": "1", "a/c.pyc": "1", "pyvenv.cfg": ""})
    (git_folder.path / "c").mkdir()
    (git_folder.path / "c/_version.py").symlink_to("nowhere")
    for folder, tag in ((".pytest_cache", "CACHEDIR.TAG"), (".venv", "pyvenv.cfg")):
        git_folder.write({f"{folder}/.gitignore": "*\n", f"{folder}/{tag}": "", f"{folder}/README.md": ""})

    assert Repository.around(git_folder.path).ignored_files() == ["a/_version.py"]


def test_candidates_come_in_the_order_of_git_bisect(git_folder):
    commits = [git_folder.commit({"a.py": str(number)}) for number in range(8)]

    found = Repository.around(git_folder.path).candidates(commits[-1], [commits[0]])

    assert sorted(found) == sorted(commits[1:])
    assert found[0] in commits[3:5]
