from __future__ import annotations

import re

import pytest

from pytest_fxgraph.draw.source_lines import notes_of, source_panel
from pytest_fxgraph.report.outcome import Outcome


@pytest.fixture
def model(tmp_path):
    lines = [f"line{number} = {number}" for number in range(1, 31)]
    (tmp_path / "model.py").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def rows(panel: str) -> list[str]:
    found = re.findall("<tr.*?</tr>", panel, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub("<.*?>", " ", row)).strip() for row in found]


def test_a_line_stands_between_its_neighbours_with_its_notes_below(model):
    panel = source_panel([("model.py:10: line10 = 10", "relu added"), ("model.py:10: line10 = 10", "neg added")], model)

    assert rows(panel) == [
        *(f"{number} line{number} = {number}" for number in (7, 8, 9)),
        "10 line10 = 10 &#9650; relu added &#9650; neg added",
        *(f"{number} line{number} = {number}" for number in (11, 12, 13)),
    ]


def test_lines_that_are_left_out_between_two_places_are_marked(model):
    panel = source_panel([("model.py:2: line2", "a"), ("model.py:29: line29", "b")], model)

    assert [row.split(" ")[0] for row in rows(panel)] == [*"12345", "&#8942;", "26", "27", "28", "29", "30"]


@pytest.mark.parametrize("place", ["gone.py:3: x = 1", "model.py:3: x = 1", "model.py:99: x = 1"])
def test_a_line_of_a_file_that_has_changed_stands_alone(model, place):
    number = place.split(":")[1]

    assert rows(source_panel([(place, "relu added")], model)) == [f"{number} x = 1 &#9650; relu added"]


def test_without_a_known_line_there_is_no_panel(model):
    assert source_panel([("", "relu added")], model) == ""


def test_a_line_tells_its_first_notes_and_counts_the_others(model):
    panel = source_panel([("model.py:3: line3", f"note {number}") for number in range(8)], model)

    assert panel.count("</span> note ") == 6
    assert "and 2 more" in panel


def test_source_and_notes_are_no_markup(model):
    (model / "model.py").write_text("<b>x</b>", encoding="utf-8")

    panel = source_panel([("model.py:1: <b>x</b>", "<i>note</i>")], model)

    assert "<b>" not in panel
    assert "<i>" not in panel


def test_a_change_is_told_by_its_edit_or_in_its_own_words():
    place = {"file": "model.py", "line": 3, "text": "y"}
    plain = {"subject": "node", "action": "changed", "node": "a", "operator": None, "field": None}
    changes = (
        {**plain, **place},
        {**plain, **place, "action": "added", "operator": "torch.relu"},
        {**plain, **place, "field": "kwargs['dim']", "from": "-1", "to": None},
        {**plain, **place, "subject": "break", "action": "removed", "node": "print in forward"},
        {**plain, "file": None, "line": None},
        {**plain, **place, "line": None},
        {**plain, **place, "file": None},
    )
    edits = ({"title": "relu -> tanh at blocks.0", "changes": [0]},)

    notes = [*notes_of(Outcome("t", "a.yaml", "structure", "mismatch", changes=changes, edits=edits))]

    assert {place for place, _ in notes} == {"model.py:3: y"}
    assert [words for _, words in notes] == [
        "relu -> tanh at blocks.0",
        "torch.relu added",
        "a: kwargs['dim']: -1 -> nothing",
        "graph break removed: print in forward",
    ]


def test_the_last_line_of_a_file_stands_below_its_neighbours(model):
    panel = source_panel([("model.py:30: line30 = 30", "added")], model)

    assert [row.split(" ")[0] for row in rows(panel)] == ["27", "28", "29", "30"]


def test_one_line_that_is_left_out_is_marked(model):
    panel = source_panel([("model.py:2: line2", "a"), ("model.py:10: line10", "b")], model)

    assert [row.split(" ")[0] for row in rows(panel)][4:7] == ["5", "&#8942;", "7"]


def test_six_notes_of_a_line_are_told_in_full(model):
    assert "more" not in source_panel([("model.py:3: line3", f"note {number}") for number in range(6)], model)


def test_the_first_sixty_places_are_shown(model):
    panel = source_panel([(f"gone.py:{number}: x", "note") for number in range(1, 70)], model)

    assert [row.split(" ")[0] for row in rows(panel)] == [str(number) for number in range(1, 61)]


@pytest.mark.parametrize(("less", "count"), [(0, 7), (1, 1)])
def test_lines_of_a_file_that_is_too_long_stand_alone(model, monkeypatch, less, count):
    size = (model / "model.py").stat().st_size
    monkeypatch.setattr("pytest_fxgraph.draw.source_lines._LONGEST_FILE", size - less)

    assert len(rows(source_panel([("model.py:10: line10 = 10", "added")], model))) == count


@pytest.mark.parametrize("file", ["folder", "long" * 2_000])
def test_a_line_of_a_file_that_cannot_be_read_stands_alone(model, file):
    (model / "folder").mkdir()

    assert rows(source_panel([(f"{file}:3: x = 1", "added")], model)) == ["3 x = 1 &#9650; added"]
