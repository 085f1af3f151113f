from __future__ import annotations

import warnings

import pytest
import torch
import torch.fx
from torch import nn

import fxcore
from pytest_fxgraph.compare import structural_hash as hashes
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder.kept_graphs import KeptGraphs, reason_of, warnings_ignored
from pytest_fxgraph.recordings.records import GraphRecord, StartRecord
from pytest_fxgraph.recordings.store import IndexWriter, RecordingStore


@pytest.fixture
def store(tmp_path):
    return RecordingStore(str(tmp_path / "kept"))


@pytest.fixture
def kept(store, tmp_path):
    index = store.new_index(StartRecord("1", (), ("symbolic",), {}))
    return KeptGraphs(store, index, ("symbolic",), tmp_path)


def document():
    return build_document(fxcore.symbolic_trace(nn.Linear(2, 2)))


def test_one_graph_a_hundred_times_is_hashed_and_written_once(kept, tmp_path, monkeypatch):
    calls = []
    original = hashes.structural_hash
    monkeypatch.setattr(hashes, "structural_hash", lambda each: calls.append(1) or original(each))
    kept.begin("test_a")
    records = [kept.keep("symbolic", "M", "", document) for _ in range(100)]
    kept.end()
    assert len(calls) == 1
    assert len({record.graph for record in records}) == 1
    assert len(list((tmp_path / "kept" / "graphs").iterdir())) == 1
    assert kept.counts() == {"symbolic": 100, "tests": 1, "left out": 0}


def test_the_text_has_no_code_and_reads_back_under_its_hash(kept, store):
    kept.begin("test_a")
    record = kept.keep("symbolic", "M", "", document)
    text = store.text(record.graph)
    assert "def forward" not in text
    assert isinstance(record, GraphRecord)


def test_a_kind_that_is_not_wanted_is_not_even_described(kept):
    assert kept.keep("export", "M", "", lambda: pytest.fail("described")) is None


def test_an_error_becomes_a_reason_of_one_line_without_the_folder(kept, tmp_path):
    def fail():
        raise ValueError(f"odd at {tmp_path}/model.py:3\nand more")

    kept.begin("test_a")
    assert kept.keep("symbolic", "M", "model.py:3", fail).reason == "odd at model.py:3"


def test_a_store_that_fails_is_told_and_fails_no_test(kept, monkeypatch):
    def fail(*_):
        raise RecordingError("the disk is full")

    monkeypatch.setattr(RecordingStore, "keep", fail)
    kept.begin("test_a")
    assert kept.keep("symbolic", "M", "", document).reason == "the disk is full"
    assert kept.failure == "the disk is full"


def test_reading_a_graph_shows_no_warning_and_forgets_none(kept):
    def warn():
        warnings.warn("once", stacklevel=2)

    def describe():
        warnings.warn("of the reader", stacklevel=1)
        return document()

    kept.keep("symbolic", "M", "", document)  # its imports add filters of their own
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(2):
            warn()
            kept.keep("symbolic", "M", "", describe)
    assert [str(each.message) for each in shown] == ["once"]
    before = [*warnings.filters]
    with warnings_ignored():
        assert warnings.filters != before
    assert warnings.filters == before
    with warnings.catch_warnings(), warnings_ignored():
        warnings.resetwarnings()


def test_modes_of_the_user_see_nothing_of_the_recorder(kept):
    class Counts(torch.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Counts.calls += 1
            return func(*args, **(kwargs or {}))

    graph_module = torch.fx.symbolic_trace(nn.Linear(2, 2))
    with Counts():
        kept.keep("symbolic", "M", "", lambda: build_document(graph_module))
    assert Counts.calls == 0


def test_the_first_failure_of_the_store_is_told(kept, monkeypatch):
    errors = iter(["the disk is full", "the disk is gone"])

    def fail(*_):
        raise RecordingError(next(errors))

    monkeypatch.setattr(IndexWriter, "flush", fail)
    kept.begin("test_a")
    kept.end()

    assert kept.failure == "the disk is full"


def test_a_record_that_is_withdrawn_is_gone_and_an_equal_one_stays(kept, store):
    kept.begin("test_a")
    first, second = (kept.keep("symbolic", "M", "", document) for _ in range(2))
    assert first == second
    kept.withdraw(None)
    kept.withdraw(kept.keep("symbolic", "N", "", document))
    kept.withdraw(second)
    assert kept.has_graphs()
    kept.withdraw(first)
    assert not kept.has_graphs()
    kept.leave_out("symbolic", "M", "", "why")
    assert not kept.has_graphs()
    kept.end()

    assert kept.counts() == {"tests": 0, "left out": 1}


def test_the_record_that_is_withdrawn_is_not_written(kept, store):
    kept.begin("test_a")
    kept.keep("symbolic", "M", "model.py:1", document, {"breaks": []})
    kept.withdraw(kept.keep("symbolic", "M", "model.py:2", document))
    kept.end()

    (record,) = (each for _, found in store.indexes() for each in found if isinstance(each, GraphRecord))
    assert (record.line, record.facts) == ("model.py:1", {"breaks": []})
    assert kept.keep("symbolic", "M", "", document).facts == {}


def test_a_second_attempt_forgets_the_first_one(kept):
    kept.begin("test_a")
    kept.keep("symbolic", "M", "", document)
    kept.begin("test_a")
    kept.leave_out("symbolic", "M", "", "why")
    kept.end()

    assert kept.counts() == {"tests": 0, "left out": 1}
    assert kept.test == ""


def test_graphs_outside_tests_are_counted_without_a_test(kept, store):
    with kept.shared_by("a module"):
        kept.keep("symbolic", "M", "", document)
        kept.keep("symbolic", "N", "", document)
    kept.begin("test_a")
    kept.keep("symbolic", "M", "", document)
    kept.end()

    assert kept.counts() == {"symbolic": 3, "tests": 1, "left out": 0}
    records = [each for _, found in store.indexes() for each in found if isinstance(each, GraphRecord)]
    assert [(each.test, each.order) for each in records] == [("a module", 0), ("a module", 1), ("test_a", 0)]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("first\nsecond"), "first"),
        (ValueError("  \n"), "ValueError"),
        (KeyError(), "KeyError"),
        (ValueError("x" * 501), "x" * 500),
    ],
)
def test_a_reason_is_one_line_of_at_most_five_hundred_characters(error, reason):
    assert reason_of(error) == reason
