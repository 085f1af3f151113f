"""Repositories of git, and recordings, made by a test."""

from __future__ import annotations

import os
import subprocess
import textwrap

import pytest
import torch

import fxcore
from pytest_fxgraph.compare.structural_hash import structural_hash
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.recordings.recording import RecordedTest, Recording
from pytest_fxgraph.recordings.records import GraphRecord, RunRecord
from pytest_fxgraph.recordings.store import RecordingStore

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


@pytest.fixture
def relu():
    return lambda x: torch.relu(x) + 1


@pytest.fixture
def sigmoid():
    return lambda x: torch.sigmoid(x) + 1


@pytest.fixture
def sigmoid_and_two():
    return lambda x: torch.sigmoid(x) + 2


@pytest.fixture
def recording_of(tmp_path):
    """Return a function that makes a recording: the functions that each test traced."""
    store = RecordingStore(str(tmp_path / "kept"))
    store.new_index(RunRecord("1-a", (), (), {})).close()

    def make(**tests):
        found = {}
        for test, functions in tests.items():
            records = []
            for order, function in enumerate(functions):
                document = build_document(fxcore.symbolic_trace(function))
                graph = structural_hash(document)
                store.keep(graph, encode(document))
                records.append(GraphRecord(test, order, "symbolic", "Model", graph))
            found[test] = RecordedTest("passed", records)
        return Recording(store, (), (), found)

    return make
