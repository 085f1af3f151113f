from __future__ import annotations

import textwrap

import pytest

from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.child_run import record_in_child

SUITE = """
    import random

    import numpy
    import torch


    class Scale(torch.nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = int(scale)

        def forward(self, x):
            return x * self.scale


    def test_values():
        for scale in (random.randrange(10**9), numpy.random.randint(10**9), torch.randint(10**9, ())):
            Scale(scale)(torch.ones(2))


    def test_a_seed_of_its_own():
        torch.manual_seed(5)
        Scale(torch.randint(10**9, ()))(torch.ones(2))
"""


def graphs(tmp_path, *arguments):
    place = str(tmp_path / f"kept-{len([*tmp_path.iterdir()])}")
    (tmp_path / "test_it.py").write_text(textwrap.dedent(SUITE))
    run = record_in_child(place, ["-q", "-p", "no:cacheprovider", *arguments], folder=tmp_path)
    assert run.problem == ""
    tests = Recording.read(RecordingStore(place)).tests.items()
    return {test: [each.graph for each in found.graphs] for test, found in tests}


@pytest.mark.slow
def test_graphs_that_depend_on_random_values_are_the_same_in_two_runs(tmp_path):
    seeded = ["-p", "pytest_fxgraph.replay.seeded_run"]

    first, second, unseeded = graphs(tmp_path, *seeded), graphs(tmp_path, *seeded), graphs(tmp_path)

    values, own = first
    assert len(first[values]) == 3
    assert first == second
    assert all(one != other for one, other in zip(first[values], unseeded[values], strict=True))
    assert first[own] == unseeded[own]
