from __future__ import annotations

import textwrap

import pytest

from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.comparison import compare_recordings

SUITE = """
    import torch, torch.fx

    class Small(torch.nn.Module):
        def forward(self, x):
            return torch.{operator}(x)

    def test_a():
        torch.fx.symbolic_trace(Small())

    def test_b():
        torch.fx.symbolic_trace(Small())
        torch.fx.symbolic_trace(lambda y: y + 1)
"""


@pytest.fixture
def record(pytester):
    def run(place, operator):
        pytester.makepyfile(textwrap.dedent(SUITE).format(operator=operator))
        pytester.runpytest_inprocess("-p", "no:cacheprovider", "--fx-record", place).assert_outcomes(passed=2)
        return Recording.read(RecordingStore(place))

    return run


def test_equal_runs_are_the_same_and_each_graph_is_kept_once(record, pytester):
    replay = compare_recordings(record("before", "relu"), record("after", "relu"))
    assert replay.is_same
    assert (replay.tests, replay.same) == (2, 3)
    assert len(list((pytester.path / "after" / "graphs").iterdir())) == 2


def test_an_edit_is_told_at_each_graph_that_it_changed(record):
    replay = compare_recordings(record("before", "relu"), record("after", "sigmoid"))
    assert replay.same == 1
    assert sorted(each.test.partition("::")[2] for each in replay.changed) == ["test_a", "test_b"]
    for each in replay.changed:
        assert [edit.text for edit in each.difference.edits] == ["torch.relu -> torch.sigmoid"]
