from __future__ import annotations

import textwrap

import pytest

from fixtures.documents import document
from pytest_fxgraph.document.model import StateRecord
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.recording import RecordedTest, Recording
from pytest_fxgraph.recordings.records import GraphRecord, LeftOutRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay import comparison
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


def test_a_graph_of_another_release_is_an_error_with_the_next_step(recording_of, relu, sigmoid):
    before, after = recording_of(a=[relu]), recording_of(a=[sigmoid])
    (graph,) = before.tests["a"].graphs
    text = before.store.text(graph.graph).replace("format: 3", "format: 4")
    before.tests["a"].graphs[0] = graph._replace(graph="f0")
    before.store.keep("f0", text)

    with pytest.raises(RecordingError, match=r"cannot read the graph f0 of .*kept: it has format 4, and") as error:
        compare_recordings(before, after)

    assert str(error.value).endswith("; make both recordings with this release of pytest-fxgraph")


def recording(folder, **tests):
    """Return a recording with a letter for each graph; a letter is the text of the graph, too."""
    found = {}
    for test, graphs in tests.items():
        records = [GraphRecord(test, order, "symbolic", "Small", graph) for order, graph in enumerate(graphs)]
        found[test] = RecordedTest("passed", records)
    return Recording(RecordingStore(str(folder)), (), (), found)


@pytest.fixture
def texts_differ(monkeypatch):
    """Compare the texts of graphs: other hashes are other graphs, letters of one alphabet aside."""
    compared = []

    class Found:
        def __init__(self, is_empty):
            self.is_empty = is_empty

    def compare(before, after):
        compared.append((before, after))
        return Found(before.lower() == after.lower())

    monkeypatch.setattr(comparison, "compare_documents", compare)
    monkeypatch.setattr(comparison.Replay, "documents", lambda self, changed: (changed.before, changed.after))
    monkeypatch.setattr(comparison, "replace", lambda record, **new: record)
    return compared


def test_equal_runs_are_the_same_and_each_graph_is_kept_once(record, pytester):
    replay = compare_recordings(record("before", "relu"), record("after", "relu"))
    assert [*replay.changed, *replay.new, *replay.vanished, *replay.new_tests, *replay.other_outcomes] == []
    assert (replay.tests, replay.same, replay.graphs) == (2, 3, 3)
    assert len(list((pytester.path / "after" / "graphs").iterdir())) == 2


def test_an_edit_is_told_once_with_each_graph_that_it_changed(record):
    replay = compare_recordings(record("before", "relu"), record("after", "sigmoid"))
    assert (replay.same, replay.graphs) == (1, 3)
    (changed,) = replay.changed.values()
    assert sorted(place.test.partition("::")[2] for place in changed.places) == ["test_a", "test_b"]
    assert [edit.text for edit in changed.difference.edits] == ["torch.relu -> torch.sigmoid"]
    assert [len(document.nodes) for document in replay.documents(changed)] == [3, 3]


def test_a_pair_of_graphs_is_compared_once_however_many_tests_make_it(tmp_path, texts_differ):
    replay = compare_recordings(recording(tmp_path, a="AA", b="A"), recording(tmp_path, a="aa", b="b"))

    assert texts_differ == [("A", "a"), ("A", "b")]
    assert (replay.same, [*replay.changed]) == (2, [("A", "b")])


@pytest.mark.parametrize(
    ("before", "after", "same", "changed", "new", "vanished"),
    [
        ("abc", "abc", 3, [], 0, 0),
        ("abc", "axbc", 3, [], 1, 0),
        ("abc", "ac", 2, [], 0, 1),
        ("abc", "axc", 2, [("b", "x")], 0, 0),
        ("aab", "ab", 2, [], 0, 1),
        ("", "ab", 0, [], 2, 0),
        ("b", "ab", 1, [], 1, 0),
        ("abcde", "axcye", 3, [("b", "x"), ("d", "y")], 0, 0),
    ],
)
def test_graphs_of_a_test_are_paired_by_content_and_then_by_model(
    tmp_path, texts_differ, before, after, same, changed, new, vanished
):
    replay = compare_recordings(recording(tmp_path, a=before), recording(tmp_path, a=after))

    assert (replay.same, [*replay.changed]) == (same, changed)
    assert (len(replay.new), len(replay.vanished)) == (new, vanished)


def test_graphs_that_a_test_makes_often_are_paired_by_content_too(tmp_path, texts_differ):
    replay = compare_recordings(recording(tmp_path, a=f"p{'ab' * 100}q"), recording(tmp_path, a=f"rs{'ab' * 100}t"))

    assert (replay.same, [*replay.changed], len(replay.new)) == (200, [("p", "r"), ("q", "t")], 1)


def test_other_graphs_are_paired_where_kind_and_model_are_the_same(tmp_path, texts_differ):
    before, after = recording(tmp_path, a="pqrs"), recording(tmp_path, a="tuvw")
    for records, models in ((before.tests["a"].graphs, "ABAA"), (after.tests["a"].graphs, "BAAC")):
        records[:] = [record._replace(model=model) for record, model in zip(records, models, strict=True)]
    after.tests["a"].graphs[2] = after.tests["a"].graphs[2]._replace(kind="dynamo")

    replay = compare_recordings(before, after)

    assert [*replay.changed] == [("p", "u"), ("q", "t")]
    assert [place.record.graph for place in replay.vanished] == ["r", "s"]
    assert [place.record.graph for place in replay.new] == ["v", "w"]


def test_graphs_outside_of_tests_are_compared_and_are_no_test(tmp_path, texts_differ):
    replay = compare_recordings(recording(tmp_path, **{"": "a"}), recording(tmp_path, **{"": "b"}))

    assert (replay.tests, [*replay.changed]) == (0, [("a", "b")])


def test_very_many_graphs_of_a_test_are_paired_in_order(tmp_path, texts_differ, monkeypatch):
    monkeypatch.setattr(comparison, "SequenceMatcher", None)
    monkeypatch.setattr(comparison, "_MOST_ALIGNED", 2)

    replay = compare_recordings(recording(tmp_path, a="abcdz"), recording(tmp_path, a="axyz"))

    assert (replay.same, [*replay.changed], len(replay.vanished)) == (2, [("b", "x"), ("c", "y")], 1)


def test_facts_and_graphs_left_out_are_compared_too(tmp_path):
    before, after = recording(tmp_path, a="ab"), recording(tmp_path, a="ab")
    before.tests["a"].graphs[0] = before.tests["a"].graphs[0]._replace(facts={"breaks": [], "same": 1})
    after.tests["a"].graphs[0] = after.tests["a"].graphs[0]._replace(facts={"breaks": ["print"], "same": 1})
    before.tests["a"].left_out.append(LeftOutRecord("a", "module", "Other", "no proxy"))
    after.tests["a"].left_out += [LeftOutRecord("a", "module", "Large", "too large")] * 2

    replay = compare_recordings(before, after)

    assert [(each.name, each.before, each.after) for each in replay.facts] == [("breaks", [], ["print"])]
    assert [each[1:] for each in replay.left_out] == [
        ("module", "Other", 1, 0, "no proxy"),
        ("module", "Large", 0, 2, "too large"),
    ]


def test_tests_of_one_run_and_other_outcomes_are_named(tmp_path):
    before, after = recording(tmp_path, gone="a", both="a"), recording(tmp_path, new="a", both="a")
    after.tests["both"].outcome = "failed"

    replay = compare_recordings(before, after)

    assert (replay.new_tests, replay.vanished_tests) == (["new"], ["gone"])
    assert replay.other_outcomes == [("both", "passed", "failed")]


def test_the_values_of_a_constant_of_floats_do_not_count():
    states = [
        StateRecord("kept", "parameter", "float32[2]", content="a"),
        StateRecord("drawn", "constant", "bfloat16[2]", content="b"),
        StateRecord("turned", "constant", "complex64[2]", content="c"),
        StateRecord("places", "constant", "int64[2]", content="d"),
    ]

    compared = comparison._as_compared(document("return 1", state=tuple(states)))

    assert [record.content for record in compared.state] == ["a", None, None, "d"]
