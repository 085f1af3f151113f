"""Goldens under torchrun: one golden for ranks that agree, variants for others; a rank that is killed loses none."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from fixtures.items import made_item
from pytest_fxgraph import assert_graph_matches_golden
from pytest_fxgraph.gate.ranks_writes import TestOutcome, gathered_goldens
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.report.outcome import Outcome

needs_distributed = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torchrun")

TESTS = """
import os, signal
import torch
from torch import nn

class Stage(nn.Module):
    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, x):
        return (torch.tanh, torch.relu, torch.sin)[self.stage](x)

def test_stage(fx_golden):
    assert Stage({stage}) == fx_golden

def test_same(fx_golden):
    {before}
    assert Stage(0) == fx_golden
"""
RANK = "int(os.environ.get('RANK', 0))"


def write_tests(pytester, stage=RANK, before="pass"):
    pytester.path.joinpath("test_ranks.py").write_text(TESTS.format(stage=stage, before=before), encoding="utf-8")
    pytester.path.joinpath("pytest.ini").touch()


def launch(pytester, *options, size=2):
    """Run pytest as ranks of one launch, without torchrun's own start; return exit codes and outputs by rank."""
    error_file = tempfile.mkdtemp(dir=pytester.path) + "/attempt/{}/error.json"
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *options]
    processes = []
    for rank in range(size):
        environ = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        environ |= {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_ERROR_FILE": error_file.format(rank)}
        environ |= {"TMPDIR": str(pytester.path)}
        output = subprocess.PIPE
        processes.append(
            subprocess.Popen(
                command, env={**os.environ, **environ}, cwd=pytester.path, stdout=output, stderr=output, text=True
            )
        )
    outputs = ["".join(process.communicate(timeout=300)) for process in processes]
    return [process.returncode for process in processes], outputs


def goldens(pytester) -> dict[str, str]:
    """Return the golden files by name."""
    folder = pytester.path / "golden" / "test_ranks"
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(folder.iterdir())} if folder.exists() else {}


@pytest.mark.long
def test_ranks_that_differ_have_variants_and_ranks_that_agree_one_golden(pytester):
    write_tests(pytester, stage=f"min(1, {RANK})")

    codes, outputs = launch(pytester, size=3)
    assert codes == [1, 1, 1]
    assert "torchrun --nproc-per-node 3 -m pytest --fx-update-golden test_ranks.py::test_stage" in outputs[1]
    assert goldens(pytester) == {}

    codes, outputs = launch(pytester, "--fx-update-golden", "--fx-report=report.json", size=3)
    assert codes == [0, 0, 0], outputs
    assert [*goldens(pytester)] == ["test_same.yaml", "test_stage.yaml", "test_stage@ranks-1-2.yaml"]
    assert "tanh" in goldens(pytester)["test_stage.yaml"]
    assert "relu" in goldens(pytester)["test_stage@ranks-1-2.yaml"]
    assert "wrote golden/test_ranks/test_stage@ranks-1-2.yaml" in outputs[0]
    assert "wrote" not in outputs[1]
    assert not list(pytester.path.glob("fxgraph-ranks-*"))

    codes, outputs = launch(pytester, "--fx-unused=fail", size=3)
    assert codes == [0, 0, 0], outputs

    # Rank 2 becomes another one, and rank 1 agrees with rank 0.
    write_tests(pytester, stage=f"max(0, 2 * ({RANK} - 1))")
    codes, outputs = launch(pytester, "--fx-received", size=3)
    assert codes == [0, 1, 1], outputs
    assert sorted(file.name for file in pytester.path.rglob("*.received.yaml")) == [
        "test_stage@ranks-1.received.yaml",
        "test_stage@ranks-2.received.yaml",
    ]
    # The received files of ranks are accepted as their own variants, and a run of ranks that agree removes them.
    accepted = subprocess.run(
        [sys.executable, "-c", "from pytest_fxgraph.command.main import main; main()", "accept", "*"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
    )
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "sin" in goldens(pytester)["test_stage@ranks-2.yaml"]
    assert launch(pytester, size=3)[0] == [0, 0, 0]
    write_tests(pytester, stage="0")
    assert launch(pytester, "--fx-received", size=3)[0] == [0, 0, 1]
    assert [file.name for file in pytester.path.rglob("*.received.yaml")] == ["test_stage@ranks-2.received.yaml"]
    write_tests(pytester, stage=f"max(0, 2 * ({RANK} - 1))")
    assert launch(pytester, "--fx-received", size=3)[0] == [0, 0, 0]
    assert not list(pytester.path.rglob("*.received.yaml"))
    for rank in (1, 2):  # as before `accept`, so that an update has something to divide
        (pytester.path / "golden" / "test_ranks" / f"test_stage@ranks-{rank}.yaml").unlink()

    codes, _ = launch(pytester, "--fx-update-golden", size=3)
    assert codes == [0, 0, 0]
    kept = [name for name in goldens(pytester) if "received" not in name]
    assert kept == ["test_same.yaml", "test_stage.yaml", "test_stage@ranks-2.yaml"]
    assert "sin" in goldens(pytester)["test_stage@ranks-2.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_during_an_update_loses_no_golden(pytester, killed):
    write_tests(pytester)
    assert launch(pytester, "--fx-update-golden")[0] == [0, 0]
    before = goldens(pytester)

    kill = f"os.environ['RANK'] == '{killed}' and os.kill(os.getpid(), signal.SIGKILL)"
    write_tests(pytester, stage="2", before=kill)
    codes, outputs = launch(pytester, "--fx-update-golden")

    assert codes[killed] < 0
    assert goldens(pytester) == before
    if killed == 1:
        assert codes[0] == 1
        assert "cannot gather the goldens of 2 ranks: rank 1 ended without its results" in outputs[0]


@pytest.mark.slow
def test_a_test_that_fails_on_one_rank_updates_no_golden(pytester):
    write_tests(pytester, before="assert os.environ['RANK'] == '0'")

    codes, outputs = launch(pytester, "--fx-update-golden")

    assert codes == [0, 1], outputs
    assert [*goldens(pytester)] == ["test_stage.yaml", "test_stage@ranks-1.yaml"]


def outcome(text=None, *, golden="golden/test_x/test_f.yaml", passed=True, **facts):
    facts = {"status": "updated" if text else "matched", **facts}
    made = Outcome("test_x.py::test_f", golden, "structure", new_text=text, update="new" if text else "none", **facts)
    return TestOutcome.of_data(TestOutcome(made, passed, not passed).to_data())


@pytest.fixture
def gather(tmp_path):
    """Return a function that gathers the outcomes of ranks, and the store of their goldens."""
    config = made_item(tmp_path).config
    store = GoldenStore(tmp_path / "golden")

    def gathered(*by_rank):
        return gathered_goldens({rank: [each] for rank, each in enumerate(by_rank)}, store, config)

    return gathered, store


def told(gathered) -> dict[str, str | None]:
    return {each.outcome.golden.rpartition("/")[2]: each.outcome.new_text for each in gathered.taken}


def test_one_file_serves_all_ranks_that_agree_and_variants_are_written_first(gather):
    gathered, _ = gather
    assert told(gathered(outcome("a"), outcome("a"))) == {"test_f.yaml": "a"}
    found = gathered(outcome("a"), outcome("b"), outcome("a"), outcome("b"))
    assert [*told(found).items()] == [("test_f@ranks-1_3.yaml", "b"), ("test_f.yaml", "a")]


def test_a_rank_that_matched_keeps_its_golden_where_rank_0_writes_another(gather):
    gathered, store = gather
    store.write("test_x/test_f.yaml", "old")
    found = gathered(outcome("new"), outcome())
    assert told(found) == {"test_f.yaml": "new", "test_f@ranks-1.yaml": "old"}


def test_a_variant_that_no_rank_needs_is_removed_unless_it_serves_ranks_of_another_launch(gather):
    gathered, store = gather
    for name in ("test_f.yaml", "test_f@ranks-1.yaml", "test_f@ranks-1-7.yaml"):
        store.write(f"test_x/{name}", "old")
    found = gathered(outcome("new"), outcome("new", golden="golden/test_x/test_f@ranks-1.yaml"))
    assert told(found) == {"test_f.yaml": "new"}
    assert [each.name for each in found.outdated] == ["test_f@ranks-1.yaml"]


def test_a_rank_that_comes_to_agree_with_its_golden_writes_nothing(gather):
    gathered, store = gather
    store.write("test_x/test_f.yaml", "old")
    store.write("test_x/test_f@ranks-1.yaml", "other")
    found = gathered(outcome(), outcome("old", golden="golden/test_x/test_f@ranks-1.yaml"))
    assert told(found) == {"test_f.yaml": None}
    assert [each.name for each in found.outdated] == ["test_f@ranks-1.yaml"]


def test_a_test_that_failed_on_a_rank_writes_nothing(gather):
    gathered, _ = gather
    assert not any(each.passed for each in gathered(outcome("a"), outcome("b", passed=False)).taken)


def test_an_equal_mismatch_is_told_once_and_another_with_its_rank(gather):
    gathered, _ = gather
    found = gathered(*[outcome(status="mismatch", headline=text) for text in ("x", "x", "y")])
    assert [each.outcome.headline for each in found.taken] == ["x", "rank 2: y"]


def test_a_received_file_of_ranks_that_agree_again_is_removed(pytester):
    config, store = pytester.parseconfigure("--fx-received"), GoldenStore(pytester.path / "golden")
    for name in ("test_f.yaml", *(f"test_f@ranks-{ranks}.received.yaml" for ranks in ("1", "2", "7"))):
        store.write(f"test_x/{name}", "old")
    mismatch = outcome(status="mismatch", headline="y", received="new", expected_digest="of test_f", passed=False)
    found = gathered_goldens({0: [outcome()], 1: [mismatch], 2: [outcome()]}, store, config)
    assert [each.name for each in found.outdated] == ["test_f@ranks-2.received.yaml"]
    taken = [(each.outcome.golden, each.outcome.expected_digest) for each in found.taken]
    assert taken[1:] == [("golden/test_x/test_f@ranks-1.yaml", None)]  # `accept` makes a new golden of it


def test_two_texts_for_one_inline_golden_are_an_error(gather):
    gathered, _ = gather
    found = gathered(outcome("a", inline={}), outcome("b", inline={}))
    assert told(found) == {"test_f.yaml": "a"}
    assert "wants another text in it on rank 1 than on rank 0" in found.errors[0]


@pytest.mark.slow
@needs_distributed
def test_two_stages_under_torchrun_update_and_then_match(pytester):
    write_tests(pytester)
    for options in (["--fx-update-golden"], []):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        done = subprocess.run(
            [*command, "-m", "pytest", *options], cwd=pytester.path, capture_output=True, text=True, timeout=300
        )
        if "without libuv support" in done.stderr:
            pytest.skip("torchrun of this build of torch cannot start")
        assert done.returncode == 0, done.stdout + done.stderr
    assert [*goldens(pytester)] == ["test_same.yaml", "test_stage.yaml", "test_stage@ranks-1.yaml"]
    assert not list(Path(tempfile.gettempdir()).glob("fxgraph-ranks-*/rank-1.json"))


def test_a_golden_that_only_one_rank_has_counts_behind_one_that_both_have(pytester):
    config, store = pytester.parseconfigure(), GoldenStore(pytester.path / "golden")
    same, other = (outcome(status="mismatch", headline=text) for text in ("x", "y"))

    found = gathered_goldens({0: [same], 1: [same, other]}, store, config)

    assert [each.outcome.headline for each in found.taken] == ["x", "rank 1: y"]


@pytest.mark.parametrize(("rank", "kind"), [(0, "ReLU"), (1, "Tanh"), (2, "GELU"), (5, "ReLU")])
def test_a_rank_compares_with_the_golden_of_the_fewest_ranks_that_it_is_among(rank, kind, pytester, monkeypatch):
    for name, number in (("RANK", rank), ("WORLD_SIZE", 8), ("LOCAL_WORLD_SIZE", 4)):
        monkeypatch.setenv(name, str(number))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.delenv("FXGRAPH_INSIDE_RANK", raising=False)
    (pytester.path / "golden/test_ranks").mkdir(parents=True)
    for end, module in (("", torch.nn.ReLU()), ("@ranks-1-2", torch.nn.GELU()), ("@ranks-1", torch.nn.Tanh())):
        path = pytester.path / f"golden/test_ranks/test_stage{end}.yaml"
        assert_graph_matches_golden(module, path, update=True)
    test = f"import torch\n\ndef test_stage(fx_golden):\n    assert torch.nn.{kind}() == fx_golden"
    pytester.makepyfile(test_ranks=test)

    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_file_is_new_or_changed_and_has_the_digest_of_what_it_replaces(gather):
    gathered, store = gather
    store.write("test_x/test_f.yaml", "old")
    store.write("test_x/test_f@ranks-1.yaml", "other")

    found = gathered(outcome("a", expected_digest="compared"), outcome("b"), outcome("c"), outcome("c"))

    assert {
        each.outcome.golden.rpartition("/")[2]: (each.outcome.update, each.outcome.expected_digest)
        for each in found.taken
    } == {
        "test_f.yaml": ("changed", "compared"),
        "test_f@ranks-1.yaml": ("changed", golden_digest(b"other")),
        "test_f@ranks-2-3.yaml": ("new", None),
    }


@pytest.mark.parametrize(("passed", "failed"), [(True, False), (False, True), (False, False)])
def test_an_outcome_reaches_rank_0_as_it_is(passed, failed):
    told = TestOutcome(Outcome("t", "a.yaml", "ops", "matched"), passed, failed)

    assert TestOutcome.of_data(told.to_data()) == told


def test_every_text_that_differs_for_one_inline_golden_is_an_error_and_a_mismatch_is_told_beside(gather):
    _, store = gather
    outcomes = [
        [outcome("a", inline={})],
        [outcome("b", inline={}), outcome("c", inline={}), outcome(status="mismatch", headline="y", inline={})],
    ]

    found = gathered_goldens(dict(enumerate(outcomes)), store, made_item(store.root.parent).config)

    assert len(found.errors) == 2
    assert [each.outcome.headline for each in found.taken] == ["", "rank 1: y"]


def test_the_last_comparison_of_a_test_decides_about_the_golden_of_a_rank(gather):
    _, store = gather
    outcomes = [
        [outcome("b", passed=False), outcome("a")],
        [outcome("a", passed=True), outcome("a", passed=False)],
    ]
    config = made_item(store.root.parent).config

    assert all(each.passed for each in gathered_goldens({0: outcomes[0]}, store, config).taken)
    assert not any(each.passed for each in gathered_goldens(dict(enumerate(outcomes)), store, config).taken)


def test_the_outcome_that_wants_a_text_stands_for_the_ranks_that_share_it(gather):
    _, store = gather
    store.write("test_x/test_f.yaml", "a")
    store.write("test_x/test_f@ranks-1.yaml", "a")
    by_rank = {
        0: [outcome(headline="matched")],
        1: [outcome("a", golden="golden/test_x/test_f@ranks-1.yaml", headline="wants")],
        2: [outcome(headline="first"), outcome(headline="last")],
    }
    config = made_item(store.root.parent).config

    assert [each.outcome.headline for each in gathered_goldens(by_rank, store, config).taken] == ["wants"]
    store.write("test_x/test_f.yaml", "b")
    by_rank = {0: by_rank[2], 1: by_rank[1]}
    taken = gathered_goldens(by_rank, store, config).taken
    assert [(each.outcome.headline, each.outcome.golden[-12:]) for each in taken] == [
        ("wants", "ranks-1.yaml"),
        ("last", "/test_f.yaml"),
    ]


@pytest.mark.parametrize("is_received", [False, True])
def test_a_variant_of_exactly_the_ranks_of_the_launch_is_outdated(gather, is_received):
    _, store = gather
    end = ".received.yaml" if is_received else ".yaml"
    for name in ("test_f.yaml", f"test_f@ranks-0-1{end}"):
        store.write(f"test_x/{name}", "old")
    config = made_item(store.root.parent, fx_received=is_received).config

    found = gathered_goldens({rank: [outcome("new")] for rank in (0, 1)}, store, config)

    assert [each.name for each in found.outdated] == [f"test_f@ranks-0-1{end}"]


def test_inline_goldens_and_rows_have_no_received_files_of_ranks(gather):
    _, store = gather
    config = made_item(store.root.parent, fx_received=True).config
    inline = outcome(golden="test_x.py:3", inline={}, status="mismatch", headline="x", passed=False)

    found = gathered_goldens({0: [inline], 1: [inline]}, store, config)

    assert ([each.outcome.headline for each in found.taken], found.outdated) == (["x"], [])
