from __future__ import annotations

import gc
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fixtures.documents import document
from fixtures.items import made_item
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.gate import golden_file
from pytest_fxgraph.gate.attempt import GoldenAttempt
from pytest_fxgraph.gate.golden_file import GoldenFiles, goldens_elsewhere
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK, LaunchedRank
from pytest_fxgraph.gate.obtained import Hooks, ObtainedGraph
from pytest_fxgraph.goldens.files import golden_digest, variant_paths
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.report.outcome import Outcome, Terms

GOLDEN = encode(document("%x = input x\nreturn %x"))
MISSING = PurePosixPath("tests/test_net/test_net.yaml")


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Return the lines for a missing golden of tests/test_net.py below rootdir, after files were written."""
    monkeypatch.setattr(golden_file, "started_in", lambda config: tmp_path)

    def lines(*files: str, rootdir: str = "", text: str = GOLDEN, golden: PurePosixPath = MISSING) -> list[str]:
        for name in (*files, "tests/test_net.py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if name.endswith(".yaml") else "")
        root = tmp_path / rootdir
        root.mkdir(exist_ok=True)
        layout = GoldenLayout(root, "golden")
        monkeypatch.setattr(golden_file, "golden_layout", lambda config: layout)
        config = SimpleNamespace(rootpath=root, stash={})
        return [*goldens_elsewhere(SimpleNamespace(config=config, path=tmp_path / "tests/test_net.py"), golden)]

    return lines


def test_a_golden_of_the_test_in_another_folder_is_named(told, tmp_path):
    assert told("snapshots/tests/test_net/test_net.yaml") == [
        f"  but there is snapshots/tests/test_net/test_net.yaml; is the rootdir right, {tmp_path}?"
    ]


@pytest.mark.parametrize(
    "files",
    [
        [],
        ["golden/tests/test_net/test_net.yaml"],  # the missing golden itself
        ["snapshots/tests/test_net/test_net.received.yaml"],
        ["snapshots/tests/test_net/test_net.yml"],
        ["snapshots/tests/test_net/test_other.yaml"],
        ["snapshots/tests/test_other/test_net.yaml"],
        ["other/golden/test_net/test_net.yaml", "other/test_net.py"],  # the golden of another test file
        ["tests/test_net/test_net.yaml", "test_net.py"],  # of another test file, in the golden folder `tests`
    ],
)
def test_other_files_are_no_golden_of_the_test(told, files):
    assert told(*files) == []


def test_a_file_that_is_no_golden_is_not_named(told):
    assert told("snapshots/tests/test_net/test_net.yaml", text="a: 1\n") == []


def test_the_first_of_several_is_named(told):
    assert len(told("a/tests/test_net/test_net.yaml", "b/tests/test_net/test_net.yaml")) == 1


def test_a_golden_of_a_moved_test_file_is_named_where_no_other_test_file_has_its_place(told):
    assert len(told("old/golden/test_net/test_net.yaml")) == 1


def test_the_digest_in_a_name_does_not_count(told):
    name = PurePosixPath("tests/test_net/test_net~1a2b3c.yaml")

    assert len(told("snapshots/tests/test_net/test_net~9f8e7d.yaml", golden=name)) == 1


@pytest.mark.parametrize(("repository", "count"), [(".git", 1), (".hg", 1), ("docs", 0)])
def test_the_whole_repository_around_rootdir_is_looked_through(told, tmp_path: Path, repository, count):
    (tmp_path / repository).mkdir()

    assert len(told("snapshots/tests/test_net/test_net.yaml", rootdir="part")) == count


def test_a_received_file_is_no_golden_whatever_the_digest_in_its_name(told):
    name = PurePosixPath("tests/test_net/test_net~1a2b3c.yaml")

    assert told("snapshots/tests/test_net/test_net~9f8e7d.received.yaml", golden=name) == []


# Comparisons of a test with its files.


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def compared(item: Any, *subjects: object, attempt: GoldenAttempt | None = None, **options: Any) -> GoldenAttempt:
    """Compare subjects with the goldens of one attempt of a test."""
    attempt = attempt or GoldenAttempt()
    for subject in subjects:
        GoldenFiles(item, attempt).compare(subject, options)  # type: ignore[arg-type]
    return attempt


def written(item: Any, golden: str, subject: object | None = None, **options: Any) -> None:
    """Write the golden of a graph."""
    path = item.config.rootpath / golden
    path.parent.mkdir(parents=True, exist_ok=True)
    terms = Terms(level=options.pop("level", "structure"))
    path.write_text(ObtainedGraph(subject or Model(), options, terms, Hooks()).new_text, encoding="utf-8")


def results(attempt: GoldenAttempt) -> list[tuple[str, str]]:
    return [(outcome.golden.removeprefix("golden/test_a/"), outcome.status) for outcome in attempt.outcomes]


@pytest.mark.parametrize(
    ("params", "originalname", "golden"),
    [
        (None, "test_x", "test_x.yaml"),
        ("a", "test_x", "test_x-a.yaml"),
        (None, None, "test_x.yaml"),  # an item of another plugin has no function
    ],
)
def test_a_golden_is_named_after_its_test(tmp_path, params, originalname, golden):
    item = made_item(tmp_path, params=params)
    item.originalname = originalname

    assert results(compared(item, Model())) == [(golden, "missing")]


def test_unnamed_goldens_of_a_test_are_counted_and_named_ones_are_not(tmp_path):
    item = made_item(tmp_path)
    attempt = compared(item, Model(), Model())
    compared(item, Model(), attempt=attempt, name="mine")
    compared(item, Model(), attempt=attempt)

    assert [golden for golden, _ in results(attempt)] == [
        *("test_x.yaml", "test_x.2.yaml", "test_x.mine.yaml", "test_x.3.yaml")
    ]


class Adapting:
    """A plugin whose hook makes one model of every dict."""

    @pytest.hookimpl
    def pytest_fxgraph_adapt(self, obj):
        return Model() if isinstance(obj, dict) and "whole" in obj else None


@pytest.mark.parametrize(
    ("plugins", "subject", "goldens"),
    [
        ([], {"whole": Model(), "b": Model()}, ["test_x.b.yaml", "test_x.whole.yaml"]),
        ([Adapting()], {"whole": Model(), "b": Model()}, ["test_x.yaml"]),
        ([Adapting()], {"a": Model(), "b": Model()}, ["test_x.a.yaml", "test_x.b.yaml"]),
    ],
)
def test_a_set_of_programs_has_a_golden_each_unless_a_hook_makes_one_graph_of_it(tmp_path, plugins, subject, goldens):
    assert [golden for golden, _ in results(compared(made_item(tmp_path, *plugins), subject))] == goldens


@pytest.mark.parametrize(
    ("options", "statuses"),
    [
        ({}, ["matched", "mismatch"]),
        ({"fx_update_golden": True, "fx_update_only": "new"}, ["matched", "mismatch"]),
        ({"fx_update_golden": True}, ["matched"]),
    ],
)
def test_a_program_that_is_gone_fails_the_test_unless_the_run_updates(tmp_path, options, statuses):
    item = made_item(tmp_path, **options)
    for name in ("a", "b"):
        path = tmp_path / f"golden/test_a/test_x.{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ObtainedGraph(Model(), {}, Terms(), Hooks(), name).new_text, encoding="utf-8")

    attempt = compared(item, {"a": Model()})

    assert [outcome.status for outcome in attempt.outcomes] == statuses
    if "mismatch" in statuses:
        assert attempt.outcomes[-1].headline == (
            "the program 'b' is gone, which the golden golden/test_a/test_x.b.yaml holds"
        )


@pytest.mark.parametrize("options", [{}, {"example_inputs": (torch.ones(2),)}])
def test_garbage_is_collected_during_a_comparison_only_if_the_model_runs(tmp_path, options):
    seen = []

    class Looking:
        @pytest.hookimpl
        def pytest_fxgraph_adapt(self, obj):
            seen.append(gc.isenabled())

    was_enabled = gc.isenabled()
    gc.enable()
    try:
        compared(made_item(tmp_path, Looking()), Model(), **options)
        assert gc.isenabled()
    finally:
        (gc.enable if was_enabled else gc.disable)()

    assert set(seen) == {bool(options)}


@pytest.mark.parametrize("place", range(len(variant_paths(Path("a.yaml"), torch.__version__, has_cuda=False))))
def test_the_most_specific_variant_serves_the_test(tmp_path, monkeypatch, place):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    paths = variant_paths(PurePosixPath("golden/test_a/test_x.yaml"), str(torch.__version__), has_cuda=False)
    item = made_item(tmp_path)
    for path in paths[place:]:
        written(item, str(path))

    assert results(compared(item, Model())) == [(paths[place].name, "matched")]


def test_a_variant_that_the_test_is_about_to_write_serves_its_next_comparison(tmp_path):
    item = made_item(tmp_path, fx_update_golden=True, fx_update_variant=True)
    first = compared(item, Model(), name="a")
    (variant,) = first.texts

    compared(item, Model(), attempt=first, name="a")
    compared(item, nn.Identity(), attempt=first, name="b")

    assert [outcome.status for outcome in first.outcomes] == ["updated", "matched", "updated"]
    assert first.outcomes[1].golden == variant == first.outcomes[0].golden


@pytest.mark.parametrize(
    ("files", "rank", "golden"),
    [
        ([], 1, "test_x.yaml"),
        (["test_x@ranks-1-3.yaml"], 1, "test_x@ranks-1-3.yaml"),
        (["test_x@ranks-1-3.yaml"], 0, "test_x.yaml"),
        (["test_x@ranks-1-3.yaml", "test_x@ranks-1.yaml"], 1, "test_x@ranks-1.yaml"),
        (["test_x@ranks-1-3.yaml"], None, "test_x.yaml"),
    ],
)
def test_a_rank_of_a_launch_compares_with_its_smallest_variant(tmp_path, files, rank, golden):
    item = made_item(tmp_path)
    if rank is not None:
        item.config.stash[LAUNCHED_RANK] = LaunchedRank(rank, 4, "launch", 4, "torchrun")
    for file in ["test_x.yaml", *files]:
        written(item, f"golden/test_a/{file}")

    assert results(compared(item, Model())) == [(golden, "matched")]


@pytest.mark.parametrize(
    ("file", "compared_before", "is_alone"),
    [
        (None, False, True),
        ("test_x.yaml", False, True),
        ("test_x@linux.yaml", False, True),
        ("test_x.2.yaml", False, False),
        ("test_y.yaml", False, True),
        ("test_xy.yaml", False, True),
        ("test_x.yaml", True, False),
    ],
)
def test_a_golden_is_alone_if_the_test_has_no_other_one(tmp_path, file, compared_before, is_alone):
    item = made_item(tmp_path)
    if file:
        written(item, f"golden/test_a/{file}")
    attempt = GoldenAttempt()
    if compared_before:
        attempt.outcomes.append(Outcome(item.nodeid, "golden/test_a/other.yaml", "structure", "matched"))
    obtained = ObtainedGraph(Model(), {}, Terms(), Hooks())

    place = golden_file.TestFile(item, attempt, PurePosixPath("test_a/test_x.yaml"), obtained)

    assert place.is_alone is is_alone


@pytest.mark.parametrize("variant", [False, True])
def test_an_update_schedules_its_text_for_the_golden_or_for_the_variant(tmp_path, variant):
    item = made_item(tmp_path, fx_update_golden=True, fx_update_variant=variant)
    written(item, "golden/test_a/test_x.yaml", nn.Identity())
    text = ObtainedGraph(Model(), {}, Terms(), Hooks()).new_text

    attempt = compared(item, Model())

    (outcome,) = attempt.outcomes
    assert (outcome.status, "@torch-" in outcome.golden) == ("updated", variant)
    assert attempt.texts == {outcome.golden: text}
    # The variant is a new file.
    assert (outcome.expected_digest is None) is variant


@pytest.mark.parametrize("is_worker", [False, True])
def test_a_worker_names_the_digest_of_the_golden_that_matched(tmp_path, is_worker):
    item = made_item(tmp_path)
    if is_worker:
        item.config.workerinput = {}
    written(item, "golden/test_a/test_x.yaml")

    (outcome,) = compared(item, Model()).outcomes

    assert outcome.status == "matched"
    assert (outcome.expected_digest is not None) is is_worker


@pytest.mark.parametrize("damage", ["", "nodes: [\n"])
def test_a_golden_that_differs_or_is_damaged_is_named_with_its_digest(tmp_path, damage):
    item = made_item(tmp_path)
    path = tmp_path / "golden/test_a/test_x.yaml"
    written(item, "golden/test_a/test_x.yaml", nn.Identity())
    path.write_text(path.read_text(encoding="utf-8") + damage, encoding="utf-8")

    (outcome,) = compared(item, Model()).outcomes

    assert outcome.expected_digest == golden_digest(path.read_bytes())


@pytest.mark.parametrize("is_received", [False, True])
def test_what_is_received_is_kept_if_the_run_keeps_received_files(tmp_path, is_received):
    item = made_item(tmp_path, fx_received=is_received)

    attempt = compared(item, Model())

    expected = ObtainedGraph(Model(), {}, Terms(), Hooks()).new_text if is_received else None
    assert attempt.outcomes[0].received == expected


@pytest.mark.parametrize("options", [{"fx_update_golden": True}, {"fx_received": True}])
@pytest.mark.parametrize(("second", "keeps"), [(Model(), True), (nn.Sigmoid(), False)])
def test_a_graph_that_is_compared_at_exact_too_keeps_its_traced_names(tmp_path, options, second, keeps):
    item = made_item(tmp_path, **options)
    attempt = compared(item, Model(), name="a")
    compared(item, nn.Identity(), attempt=attempt, name="b")
    before = attempt.outcomes[1]

    compared(item, second, attempt=attempt, name="a", level="exact")

    text = attempt.outcomes[0].new_text or attempt.outcomes[0].received or ""
    assert ("names: traced" in text) is keeps
    assert attempt.outcomes[1] == before
    if "fx_update_golden" in options:
        assert attempt.texts[attempt.outcomes[0].golden] == text


def test_a_script_schedules_the_text_of_an_update(tmp_path):
    attempt = GoldenAttempt()
    place = golden_file.ScriptFile(tmp_path / "a.yaml", attempt, is_update=True, remedy="")

    place.schedule(Outcome("t", "a", "structure", "updated", new_text="format: 2\n"))

    assert attempt.texts == {str(tmp_path / "a.yaml"): "format: 2\n"}
