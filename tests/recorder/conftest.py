from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
import torch

# Runs within this process forget the modules that they import, and the parser of YAML does not stand a second import.
import pytest_fxgraph.document.decoding  # noqa: F401
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore

PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly")
HEAD = """
import pytest, torch, torch.fx
from torch import nn

class Small(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.linear = nn.Linear(size, size)
    def forward(self, x):
        return torch.relu(self.linear(x))

class Broken(nn.Module):
    def forward(self, x, k=2):
        y = x + 1
        print("a break")
        return torch.sigmoid(y) * k
"""


@pytest.fixture(autouse=True, scope="session")
def _compiler_is_imported() -> None:
    """Import the compiler here: a run inside a test forgets its imports, and torch refuses to be imported twice."""
    torch.compile(lambda x: x.sin(), backend="aot_eager")(torch.ones(2, requires_grad=True)).sum().backward()
    torch.export.export(torch.nn.ReLU(), (torch.ones(2),), strict=True)


@pytest.fixture
def head() -> str:
    return HEAD


@pytest.fixture
def plain() -> tuple[str, ...]:
    return PLAIN


@pytest.fixture
def record(pytester: pytest.Pytester) -> Callable[..., Recording]:
    """Run tests that have `HEAD` before them with a recording, and read it; `record.result` is the run."""

    def run(source: str, *arguments: str) -> Recording:
        pytester.makepyfile(test_suite=HEAD + textwrap.dedent(source))
        run.result = pytester.runpytest_inprocess(*PLAIN, "--fx-record", "kept", *arguments)
        return Recording.read(RecordingStore(str(pytester.path / "kept")))

    return run


@pytest.fixture
def graphs_of(record: Callable[..., Recording]) -> Callable[..., list[tuple[str, str]]]:
    """Record one test with this body, and return the kind and the model of each graph."""

    def run(body: str, *arguments: str) -> list[tuple[str, str]]:
        recording = record("def test_it():\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    "), *arguments)
        record.result.assert_outcomes(passed=1)
        test = recording.tests["test_suite.py::test_it"]
        assert [each.reason for each in test.left_out] == []
        return [(each.kind, each.model.removeprefix("test_suite.")) for each in test.graphs]

    return run
