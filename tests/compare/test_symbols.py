from __future__ import annotations

import pytest

from pytest_fxgraph.compare.symbols import pair_symbols, same_sizes

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
