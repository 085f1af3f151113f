from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from pytest_fxgraph.gate.environment import environment_of_run


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT"):
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init", "--quiet", "-b", "main")
    git(tmp_path, *["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--allow-empty", "-m", "one"])
    return tmp_path


def git(folder, *arguments):
    result = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_the_commit_is_found_from_any_folder_of_a_repository_without_a_process(repository, monkeypatch):
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "tests").mkdir()
    monkeypatch.setattr(subprocess, "Popen", None)

    assert environment_of_run(repository / "tests")["commit"] == commit


@pytest.mark.parametrize("packs", [False, True])
def test_the_commit_of_a_worktree_of_packed_branches_and_of_no_branch_is_found(repository, packs):
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "--quiet", "-b", "other/branch", str(repository / "tree"))
    if packs:
        git(repository, "pack-refs", "--all")

    assert environment_of_run(repository / "tree")["commit"] == commit
    git(repository / "tree", "checkout", "--quiet", "--detach")
    assert environment_of_run(repository / "tree")["commit"] == commit


def test_without_a_repository_the_service_that_builds_names_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("pytest_fxgraph.gate.environment._commit_of_git", lambda folder: "")
    monkeypatch.setenv("GITHUB_SHA", "c0ffee")

    assert environment_of_run(tmp_path)["commit"] == "c0ffee"


@pytest.mark.parametrize("head", [b"\xff\xfe", b"", b"a" * 39, b"g" * 40, b"ref: refs/heads/none"])
def test_a_broken_repository_is_no_error(repository, head):
    (repository / ".git" / "HEAD").write_bytes(head)

    assert "commit" not in environment_of_run(repository)


def test_a_head_without_a_branch_is_the_commit(repository):
    (repository / ".git" / "HEAD").write_bytes(b"a" * 40 + b"\n")

    assert environment_of_run(repository)["commit"] == "a" * 40


def test_releases_and_platform_are_known_without_torch(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    facts = environment_of_run(tmp_path)

    assert facts["python"] == sys.version.split()[0]
    assert facts["torch"][0].isdigit()
    assert facts["platform"]
    assert "torch" not in sys.modules


def test_without_torch_the_release_of_torch_is_left_out(tmp_path, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "torch", None)
    assert environment_of_run(tmp_path)["torch"] == importlib.metadata.version("torch")

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert "torch" not in environment_of_run(tmp_path)


def test_a_branch_may_follow_the_colon_at_once(repository):
    (repository / ".git" / "HEAD").write_bytes(b"ref:refs/heads/main\n")

    assert environment_of_run(repository)["commit"] == git(repository, "rev-parse", "HEAD")
