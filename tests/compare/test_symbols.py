from __future__ import annotations

import pytest

from pytest_fxgraph.compare.symbols import in_order_of_use, pair_symbols, same_sizes, sorted_sizes, without_sizes

NAMES = {"s7": "s0", "s8": "s1"}


def pairs(*texts, known=None):
    return pair_symbols(texts, ("s0", "s1", "u0"), ("s7", "s8", "u3"), known or {})


def test_symbols_pair_by_where_they_stand():
    assert pairs(("float32[s0, s1]", "float32[s7, s8]")) == {"s7": "s0", "s8": "s1"}


def test_a_symbol_alone_comes_before_a_sum_which_torch_sorts_by_name():
    sizes = ("float32[s0 + s1]", "float32[s7 + s8]"), ("float32[s1]", "float32[s7]"), ("float32[s0]", "float32[s8]")

    assert pairs(*sizes) == {"s7": "s1", "s8": "s0"}


def test_no_two_symbols_get_one_name():
    assert pairs(("float32[s0, s0]", "float32[s7, s8]")) == {"s7": "s0"}
    assert pairs(("float32[s0, s1]", "float32[s7, s7]")) == {"s7": "s0"}
    assert pairs(("float32[s1]", "float32[s8]"), known={"s7": "s1"}) == {"s7": "s1"}


def test_a_size_found_while_running_is_no_size_of_an_input():
    assert pairs(("float32[s0]", "float32[u3]")) == {}
    assert pairs(("float32[u0]", "float32[u3]")) == {"u3": "u0"}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ([("float32[s0]", "float32[s7 + 1]"), ("float32[s1]", "float32[s7]")], {"s7": "s1"}),
        ([("float32[s0 + 1]", "float32[s7]"), ("float32[s0]", "float32[s8]")], {"s8": "s0"}),
        # texts with unequally many symbols tell nothing, and the next text counts
        ([("f(s0 + s1)", "f(s7)"), ("f(s1, 2)", "f(s8, 2)")], {"s8": "s1"}),
    ],
)
def test_a_symbol_alone_in_a_size_of_both_texts_comes_first(texts, names):
    assert pairs(*texts) == names


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        ("float32[s0 + s1]", "float32[s1 + s0]"),
        ("float32[2*s0*s1 + 3]", "float32[3 + s1*2*s0]"),
        ("float32[Max(1, s0)]", "float32[Max(s0, 1)]"),
    ],
)
def test_the_order_in_sums_and_products_is_free(expected, obtained):
    assert same_sizes(expected, obtained)


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        ("float32[s0, s1]", "float32[s1, s0]"),
        ("float32[s0 - s1]", "float32[s1 - s0]"),
        ("float32[s0 // s1]", "float32[s1 // s0]"),
        ("float32[Mod(s0, s1)]", "float32[Mod(s1, s0)]"),
        ("float32[s0 + s1]", "float64[s1 + s0]"),
        ("float32[s0 + s1 + s1]", "float32[s0 + s0 + s1]"),
    ],
)
def test_what_is_no_such_order_counts(expected, obtained):
    assert not same_sizes(expected, obtained)


def test_symbols_are_used_in_the_order_of_sizes_alone_and_then_of_all_texts_without_quotes_and_names():
    texts = ["float32[s1 + s0, 2]", "float32[s2]", 'f("s3", s4)', "%s5"]

    assert in_order_of_use(texts, ("s0", "s1", "s2", "s3", "s4", "s5")) == ["s2", "s1", "s0", "s4"]
    assert in_order_of_use(texts, ("s1", "s4")) == ["s1", "s4"]
    assert in_order_of_use(texts, ()) == []


@pytest.mark.parametrize(
    ("value", "symbols", "plain"),
    [
        ("float32[s0, 2, s1 + 1, Max(1, s0)]", ("s0", "s1"), "float32[?, 2, ?, ?]"),
        ("(float32[s0], int8[3])", ("s0",), "(float32[?], int8[3])"),
        ("float32[s0, 2]", ("s9",), "float32[s0, 2]"),
        ("float32[s0, 2]", (), "float32[s0, 2]"),
        ("float32[s0 s1]", ("s1",), "float32[?]"),  # no expression
        ("float32[s0 s1]", ("s9",), "float32[s0 s1]"),
    ],
)
def test_sizes_with_a_symbol_are_left_open(value, symbols, plain):
    assert without_sizes(value, symbols) == plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("float32[s1 + s0, 2]", "float32[(s0+s1), 2]"),
        ("float32[s1*s0 + 2 + s2]", "float32[((s0*s1)+2+s2)]"),
        ("float32[Max(s1 + s0, 1)]", "float32[Max((s0+s1), 1)]"),
        ("float32[Min(s1, 3)]", "float32[Min(3, s1)]"),
        ("float32[f(s1, s0)]", "float32[f(s1, s0)]"),
        ("float32[s2 - (s1 + s0)]", "float32[(s2Sub(s0+s1))]"),
        ("float32[s0 s1]", "float32[s0 s1]"),
    ],
)
def test_sums_products_and_extremes_have_their_operands_in_one_order(value, text):
    assert sorted_sizes(value) == text
