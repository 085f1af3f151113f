from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pytest_fxgraph.recordings.records import LeftOutRecord, StartRecord
from pytest_fxgraph.replay import findings as module
from pytest_fxgraph.replay.comparison import compare_recordings
from pytest_fxgraph.replay.findings import findings_of


@pytest.fixture
def findings(recording_of):
    def make(before, after):
        return findings_of(compare_recordings(recording_of(**before), recording_of(**after)))

    return make


def test_an_edit_is_told_once_with_all_its_graphs_and_one_diff(findings, relu, sigmoid):
    found = findings({"a": [relu], "b": [relu, relu]}, {"a": [sigmoid], "b": [sigmoid, relu]})

    assert [*found.lines()] == [
        "2 tests, 3 graphs: 1 same, 1 edit in 2 graphs",
        "",
        "edit: torch.relu -> torch.sigmoid",
        "  in 2 graphs:",
        "    a (symbolic Model)",
        "    b (symbolic Model)",
        "    input x",
        "  - %relu = torch.relu(%x)",
        "  + %sigmoid = torch.sigmoid(%x)",
        "  - %add = operator.add(%relu, 1)",
        "  + %add = operator.add(%sigmoid, 1)",
        "    return %add",
    ]


def test_two_edits_of_one_graph_are_two_findings_and_one_of_them_is_that_of_other_graphs(
    findings, relu, sigmoid_and_two, sigmoid
):
    found = findings({"a": [relu], "b": [relu]}, {"a": [sigmoid_and_two], "b": [sigmoid]})

    first, second = found.of_sort("edit")
    assert (first.words, len(first.places)) == ("torch.relu -> torch.sigmoid", 2)
    assert ("1 -> 2" in second.words, len(second.places)) == (True, 1)
    assert found.summary == "2 tests, 2 graphs: 0 same, 2 edits in 2 graphs"


def test_an_edit_at_other_places_of_other_graphs_is_told_without_places(findings):
    def model(activation, depth):
        parts = [module for _ in range(depth) for module in (torch.nn.Linear(1, 1), activation())]
        return torch.nn.Sequential(*parts)

    relu, gelu = torch.nn.ReLU, torch.nn.GELU
    one = findings({"a": [model(relu, 2)]}, {"a": [model(gelu, 2)]})
    two = findings({"a": [model(relu, 2), model(relu, 3)]}, {"a": [model(gelu, 2), model(gelu, 3)]})

    assert "at 2 places" in one.found[0].lines()[0]
    assert two.found[0].lines()[:2] == [f"edit: {one.found[0].words}", "  in 2 graphs:"]


def test_values_of_floats_do_not_count_and_those_of_integers_do(findings):
    def function(values):
        constant = torch.tensor(values)
        return lambda x: x + constant

    assert findings({"a": [function([1.0, 2.0])]}, {"a": [function([1.0, 3.0])]}).found == []
    (edit,) = findings({"a": [function([1, 2])]}, {"a": [function([1, 3])]}).found
    assert "[1, 2] -> [1, 3]" in edit.words
    assert findings({"a": [function([1.0, 2.0])]}, {"a": [function([1.0])]}).summary.endswith("1 edit in 1 graph")


def test_long_words_are_cut_in_text_and_whole_in_data(findings):
    def function(first):
        constant = torch.tensor([first, *range(40)])
        return lambda x: x + constant

    found = findings({"a": [function(1)]}, {"a": [function(2)]})

    assert len(found.found[0].words) > 200
    assert max(map(len, found.lines())) < 200
    assert max(map(len, found.unexpected([]))) < 200


def test_new_and_vanished_graphs_and_tests_are_told(findings, relu):
    found = findings({"a": [relu], "gone": [relu], "b": [relu]}, {"a": [relu, relu], "new": [relu], "b": []})

    assert found.summary == ("2 tests, 3 graphs: 1 same, 1 new graph, 1 vanished graph, 1 vanished test, 1 new test")
    assert [(each.sort, each.places) for each in found.found] == [
        ("new graph", ["a (symbolic Model)"]),
        ("vanished graph", ["b (symbolic Model)"]),
        ("vanished test", ["gone"]),
        ("new test", ["new"]),
    ]


def test_many_places_are_counted(findings, relu, sigmoid):
    tests = [f"t{number}" for number in range(9)]

    found = findings({test: [relu] for test in tests}, {test: [sigmoid] for test in tests})

    assert "  in 9 graphs:" in [*found.lines()]
    assert "    and 4 more" in [*found.lines()]


def test_facts_and_outcomes_are_told_once(recording_of, relu):
    before, after = recording_of(a=[relu], b=[relu]), recording_of(a=[relu], b=[relu])
    for test in "ab":
        graphs = before.tests[test].graphs, after.tests[test].graphs
        graphs[0][0] = graphs[0][0]._replace(facts={"breaks": ["print", "item"], "recompiles": 0})
        graphs[1][0] = graphs[1][0]._replace(facts={"breaks": ["item"], "recompiles": 1})
    after.tests["a"].outcome = "failed"

    found = findings_of(compare_recordings(before, after))

    assert [(each.sort, each.words, len(each.places)) for each in found.found] == [
        ("fact", 'breaks of symbolic: ["print"] -> none', 2),
        ("fact", "recompiles of symbolic: 0 -> 1", 2),
        ("outcome", "passed -> failed", 1),
    ]
    assert found.summary == "2 tests, 2 graphs: 2 same, 2 changed facts, 1 other outcome"


def test_a_difference_between_recordings_without_a_seed_may_be_chance(recording_of, relu, sigmoid):
    before, after, same = recording_of(a=[relu]), recording_of(a=[sigmoid]), recording_of(a=[relu])
    for side in (before, after, same):
        side.runs = [StartRecord("1-a", (), (), {}), StartRecord("2-a", (), (), {}, seeded=True)]

    words = (
        "the tests of the base and the change began without a seed: graphs that depend on drawn values differ; record "
        "with pytest --fx-record FOLDER --fx-record-seeded"
    )
    assert [*findings_of(compare_recordings(before, after)).lines()][-2:] == ["", words]
    assert findings_of(compare_recordings(before, same)).found == []
    assert [*findings_of(compare_recordings(before, same)).remarks()] == []
    after.runs = after.runs[1:]
    assert findings_of(compare_recordings(before, after)).unseeded == ["the base"]


def test_graphs_that_were_left_out_are_told(recording_of, relu):
    before, after = recording_of(a=[relu]), recording_of(a=[relu])
    for side in (before, after):
        side.tests["a"].left_out.append(LeftOutRecord("a", "module", "Large", "it asks for a value"))

    found = findings_of(compare_recordings(before, after))

    assert found.found == []
    assert [*found.lines()][1:] == [
        "",
        "1 graph of the change could not be kept, so nothing was compared there:",
        "    module Large: it asks for a value",
    ]
    after.tests["a"].left_out.clear()
    found = findings_of(compare_recordings(before, after))
    assert [each.words for each in found.of_sort("left out")] == ["module Large: 1 -> 0 (it asks for a value)"]


def test_tests_that_differ_within_one_recording_are_told(recording_of, relu):
    after = recording_of(a=[relu])
    after.disagreeing = ["a"]

    found = findings_of(compare_recordings(recording_of(a=[relu]), after))

    assert [*found.remarks()] == [
        "",
        "1 test made other graphs, or ended otherwise, in several processes of the change; the last one was compared:",
        "    a",
    ]


def test_a_replay_that_cannot_tell_says_why(recording_of, findings, relu):
    before = recording_of(a=[relu])
    before.cut_off = ("1-a.jsonl", "2-b.jsonl")

    found = findings_of(compare_recordings(before, recording_of(a=[relu])))

    assert found.unknown == [
        "cannot tell the rest: the run of the base was cut off in 2 processes; its output may name the reason; record "
        "the run again"
    ]
    assert "cannot tell: neither run made a graph that was kept" in findings({"a": []}, {"a": []}).unknown[0]


def test_expected_edits_are_allowed_and_everything_else_is_not(findings, relu, sigmoid):
    found = findings({"a": [relu], "gone": []}, {"a": [sigmoid], "new": [relu]})

    assert found.unexpected(["torch.relu -> *"]) == ["not expected: vanished test: in the base alone"]
    assert found.unexpected([]) == [
        "not expected: edit: torch.relu -> torch.sigmoid",
        "not expected: vanished test: in the base alone",
    ]
    assert "expected, and not found: *gelu*" in found.unexpected(["*gelu*", "*relu*"])


def test_changes_that_no_edit_explains_are_one_finding_with_their_first_lines(recording_of, relu, sigmoid_and_two):
    replay = compare_recordings(recording_of(a=[relu]), recording_of(a=[sigmoid_and_two]))
    ((key, changed),) = replay.changed.items()
    replay.changed[key] = replace(changed, difference=replace(changed.difference, edits=()))

    (found,) = findings_of(replay).found

    assert (found.sort, found.title, found.places) == ("edit", "", ["a (symbolic Model)"])
    assert "torch.sigmoid" in found.words
    assert "- %relu = torch.relu(%x)" in found.diff
    assert "+ %sigmoid = torch.sigmoid(%x)" in found.diff


def test_a_pattern_may_expect_the_words_or_the_title_of_an_edit(findings):
    def model(activation):
        return torch.nn.Sequential(torch.nn.Linear(1, 1), activation(), torch.nn.Linear(1, 1), activation())

    found = findings({"a": [model(torch.nn.ReLU)]}, {"a": [model(torch.nn.GELU)]})
    (edit,) = found.found

    assert edit.title != edit.words
    assert found.unexpected([edit.words]) == found.unexpected([edit.title]) == []


def test_facts_of_other_kinds_are_told_as_json(recording_of, relu):
    def told(before, after):
        sides = recording_of(a=[relu]), recording_of(a=[relu])
        for side, value in zip(sides, (before, after), strict=True):
            side.tests["a"].graphs[0] = side.tests["a"].graphs[0]._replace(facts={"breaks": value})
        return [each.words.partition(": ")[2] for each in findings_of(compare_recordings(*sides)).found]

    assert told(["a", "b"], "kaputt: ä") == ['["a", "b"] -> "kaputt: ä"']
    assert told("no part", ["a"]) == ['"no part" -> ["a"]']
    assert told(["a", "b"], ["b", "a"]) == ['["a", "b"] -> ["b", "a"]']
    assert told(["a", "b"], ["b", "c"]) == ['["a"] -> ["c"]']
    assert told(None, 0) == ["none -> 0"]


def test_forty_edits_have_a_diff(findings, relu, monkeypatch):
    monkeypatch.setattr(module, "_MOST_DIFFS", 1)

    found = findings({"a": [relu], "b": [lambda x: x * 2]}, {"a": [torch.nn.Sigmoid()], "b": [lambda x: x * 3]})

    assert [bool(each.diff) for each in found.found] == [True] + [False] * (len(found.found) - 1)
    assert len(found.found) > 1


def test_numbers_above_a_thousand_are_grouped(recording_of, relu):
    replay = compare_recordings(recording_of(a=[relu]), recording_of(a=[relu]))
    replay.tests, replay.same = 1000, 1001

    assert findings_of(replay).summary == "1,000 tests, 1,001 graphs: 1,001 same"


@pytest.mark.parametrize(("key", "texts", "count"), [(("k",), "ab", 1), ((), "ab", 2), ((), "aa", 1)])
def test_edits_are_one_finding_by_their_key_and_without_a_key_by_their_words(
    recording_of, relu, sigmoid, sigmoid_and_two, key, texts, count
):
    replay = compare_recordings(recording_of(a=[relu, relu]), recording_of(a=[sigmoid, sigmoid_and_two]))
    for text, (hashes, changed) in zip(texts, [*replay.changed.items()], strict=True):
        edit = replace(changed.difference.edits[0], key=key, text=text)
        difference = replace(changed.difference, edits=(edit,), changes=edit.changes)
        replay.changed[hashes] = replace(changed, difference=difference)

    assert len(findings_of(replay).of_sort("edit")) == count
