from __future__ import annotations

import pytest

from pytest_fxgraph.compare.symbols import pair_symbols, rename_symbols, rename_symbols_of_note, same_sizes

NAMES = {"s7": "s0", "s8": "s1"}


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("float32[s7, 3]", "float32[s0, 3]"),
        ("(float32[2*s7 + s8], int64[s77])", "(float32[2*s0 + s1], int64[s77])"),
        ('{"s7": float32[s7]}', '{"s7": float32[s0]}'),
        ('torch.SymInt("s7 + 1")', 'torch.SymInt("s0 + 1")'),
        ("%s7", "%s7"),
        ("torch.s7", "torch.s7"),
    ],
)
def test_symbols_are_renamed_and_nothing_else(text, renamed):
    assert rename_symbols(text, NAMES) == renamed


def test_names_of_inputs_in_notes_are_no_symbols():
    assert rename_symbols_of_note("inputs: s7, x", NAMES) == "inputs: s7, x"
    assert rename_symbols_of_note("range of s7: 2 to 10", NAMES) == "range of s0: 2 to 10"


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
