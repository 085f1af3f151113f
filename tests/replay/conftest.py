"""Repositories of git, made by a test."""

from __future__ import annotations

import os
import subprocess
import textwrap

import pytest

_PERSON = {
    f"GIT_{role}_{fact}": value
    for role in ("AUTHOR", "COMMITTER")
    for fact, value in (("NAME", "somebody"), ("EMAIL", "a@b.c"))
}


class GitFolder:
    def __init__(self, path):
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        environment = {**os.environ, **_PERSON, "GIT_CONFIG_GLOBAL": os.devnull}
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=self.path, check=True, capture_output=True, text=True, env=environment
        ).stdout.strip()

    def write(self, files):
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(textwrap.dedent(text))

    def commit(self, files, subject="a commit"):
        """Write files and commit all that there is; return the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def new_git_folder(tmp_path):
    return lambda name: GitFolder(tmp_path / "repositories" / name)


@pytest.fixture
def git_folder(new_git_folder):
    return new_git_folder("main")
