from __future__ import annotations

import textwrap

import pytest

from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.child_run import record_in_child

CACHE = "TORCHINDUCTOR_AUTOGRAD_CACHE"
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
    first, second = graphs(tmp_path, "--fx-record-seeded"), graphs(tmp_path, "--fx-record-seeded")
    unseeded = graphs(tmp_path)

    values, own = first
    assert len(first[values]) == 3
    assert first == second
    assert all(one != other for one, other in zip(first[values], unseeded[values], strict=True))
    assert first[own] == unseeded[own]


@pytest.fixture
def record(pytester, monkeypatch):
    """Record one test in this process, and return the recording and the result."""
    monkeypatch.setenv(CACHE, "1")  # so that monkeypatch restores the variable that the run sets
    monkeypatch.delenv(CACHE)

    def run(source, *arguments):
        pytester.makepyfile(source)
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--fx-record", "kept", *arguments)
        result.assert_outcomes(passed=1)
        return Recording.read(RecordingStore(str(pytester.path / "kept")))

    return run


@pytest.mark.parametrize("is_seeded", [True, False])
def test_a_seeded_recording_tells_so_and_takes_no_graph_from_a_cache_of_the_compiler(record, is_seeded):
    cache = "0" if is_seeded else None
    recording = record(
        f"import os\ndef test_a():\n    assert os.environ.get({CACHE!r}) == {cache!r}",
        *["--fx-record-seeded"] * is_seeded,
    )

    assert [run.seeded for run in recording.runs] == [is_seeded]


@pytest.mark.parametrize(("given", "seed", "is_shuffled"), [([], 1, False), (["--randomly-seed", "7"], 7, True)])
def test_pytest_randomly_draws_no_seed_and_no_order(record, given, seed, is_shuffled):
    pytest.importorskip("pytest_randomly")

    record(
        f"""
        def test_a(request):
            option = request.config.option
            assert (option.randomly_seed, option.randomly_reorganize) == ({seed}, {is_shuffled})
        """,
        "--fx-record-seeded",
        *given,
    )


def test_python_numpy_and_torch_have_one_seed_in_each_test(record):
    record(
        """
        import random, numpy, torch
        drawn = []

        def draw():
            drawn.append((random.random(), numpy.random.rand(), float(torch.rand(()))))

        class TestIt:
            def setup_method(self):
                draw()
            def test_a(self):
                draw()
                random.seed(1); numpy.random.seed(1); torch.manual_seed(1)
                draw()
                assert drawn[0] == drawn[2] != drawn[1]
        """,
        "--fx-record-seeded",
        "-p",
        "no:randomly",
    )
