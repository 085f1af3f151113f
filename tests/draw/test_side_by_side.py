from __future__ import annotations

import pytest

from pytest_fxgraph.draw import side_by_side
from pytest_fxgraph.draw.side_by_side import table_html, text_rows


def test_lines_pair_with_their_like_and_new_ones_stand_alone():
    rows = text_rows("a\nb\nc", "a\nnew\nb\nC")

    assert rows == [("a", "a", False), (None, "new", True), ("b", "b", False), ("c", "C", True)]


def test_the_words_that_differ_are_marked():
    table = table_html(text_rows("y = relu(x, 1)", "y = gelu(x, 1)"), "code")

    assert '<td class="minus">y = <del>relu</del>(x, 1)</td><td class="plus">y = <ins>gelu</ins>(x, 1)</td>' in table


def test_what_is_the_same_far_away_is_folded_and_very_much_of_it_left_out():
    few = "\n".join(f"line {number}" for number in range(100))
    many = "\n".join(f"line {number}" for number in range(1000))

    folded, left_out = (table_html(text_rows(f"{text}\na", f"{text}\nb"), "") for text in (few, many))

    assert "97 lines the same</button>" in folded
    assert "line 1<" in folded
    assert "997 lines the same<" in left_out
    assert "line 1<" not in left_out


def test_equal_texts_are_said_to_be_equal():
    assert table_html(text_rows("a", "a"), "code") == '<p class="same">Nothing differs here.</p>'


def test_nothing_in_a_line_is_markup():
    table = table_html([("<b>&", "<i>\x1b", True), (None, "<u>", True)], "<caption>")

    assert "<caption>&lt;caption&gt;</caption>" in table
    assert "<ins>&lt;u&gt;</ins>" in table
    assert not [part for part in ("<b>", "<i>", "<u>", "\x1b") if part in table]


def test_texts_of_any_length_are_compared_in_bounded_time():
    before, after = ("\n".join(f"{name} {number}" for number in range(15_000)) for name in "ab")

    table = table_html(text_rows(before, after), "")

    assert table.count("<tr>") <= 15_001


def test_a_changed_line_stands_beside_the_line_that_it_is_most_alike():
    rows = text_rows("y = x + proj; proj = None", "copy = proj.contiguous()\ny = x + copy; copy = None")

    assert rows == [
        (None, "copy = proj.contiguous()", True),
        ("y = x + proj; proj = None", "y = x + copy; copy = None", True),
    ]


def test_a_line_that_is_gone_stands_alone_before_its_neighbours_pair():
    rows = text_rows("first = f(x)\ngone\nlast = g(first, 1)", "first = f(x)\nlast = g(first, 2)")

    assert rows == [
        ("first = f(x)", "first = f(x)", False),
        ("gone", None, True),
        ("last = g(first, 1)", "last = g(first, 2)", True),
    ]


def test_differences_beyond_three_thousand_rows_are_only_counted():
    rows = [(f"old {number}", f"new {number}", number % 20 == 0) for number in range(10_000)]

    table = table_html(rows, "")

    assert table.count("further lines are not shown") == 70
    assert table.count('<td class="minus">') == 430


@pytest.mark.parametrize(("most", "row"), [(3, (None, "new", True)), (2, ("a", "new", True))])
def test_lines_pair_by_place_above_a_number_of_lines(monkeypatch, most, row):
    monkeypatch.setattr(side_by_side, "MOST_LINES", most)

    assert text_rows("a", "new\na")[0] == row


def test_a_line_that_ends_one_side_alone_stands_alone():
    assert text_rows("a = f(x)", "a = f(y)\nnew = g") == [("a = f(x)", "a = f(y)", True), (None, "new = g", True)]
    assert text_rows("a = f(y)\nold = g", "a = f(x)") == [("a = f(y)", "a = f(x)", True), ("old = g", None, True)]
    assert text_rows("a = f(x)", "") == [("a = f(x)", "", True)]


@pytest.mark.parametrize(("lines", "partner"), [(20, "call0 two"), (21, "new")])
def test_up_to_400_pairs_of_lines_are_compared_by_likeness(lines, partner):
    before = "\n".join(f"call{number} one" for number in range(lines))
    after = "\n".join(["new", *(f"call{number} two" for number in range(19))])

    assert next(other for one, other, _ in text_rows(before, after) if one == "call0 one") == partner


def test_words_that_are_repeated_often_count_for_the_likeness_of_lines():
    long, other = (f"f({'x, ' * 150}{end})" for end in ("a", "b"))

    assert text_rows(long, f"new = y\n{other}") == [(None, "new = y", True), (long, other, True)]


@pytest.mark.parametrize(("end", "marked"), [(",", "<del>y</del>"), (",,", f"<del>{'x ' * 99}y,,</del>")])
def test_words_are_marked_in_lines_of_up_to_200_words_and_signs(end, marked):
    before, after = (f"{'x ' * 99}{last}{end}" for last in "yz")

    assert marked in table_html([(before, after, True)], "")
    assert marked.replace("del", "ins").replace("y", "z") in table_html([(before, after, True)], "")


def test_a_line_of_one_side_is_marked_whole():
    assert '<td class="minus"><del>gone</del></td>' in table_html([("gone", None, True)], "")


@pytest.mark.parametrize(("count", "is_kept"), [(400, True), (401, False)])
def test_up_to_400_equal_lines_are_kept_behind_the_button(count, is_kept):
    rows = [*((f"line {number}", f"line {number}", False) for number in range(count + 3)), ("a", "b", True)]

    assert ("line 1<" in table_html(rows, "")) is is_kept
