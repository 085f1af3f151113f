"""Blocks that repeat are found by the numbers in their module paths."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.report.repetition import Entry, Repetition, repetitions


def layers(*tokens: str, first: int = 0) -> list[Entry]:
    """Make an entry for each letter of each layer."""
    return [Entry(f"layers.{number}", letter) for number, layer in enumerate(tokens, first) for letter in layer]


def blocks(*numbers: int) -> tuple[str, ...]:
    return tuple(f"layers.{number}" for number in numbers)


def test_a_block_that_is_there_several_times_is_found_once():
    entries = [Entry("", "x"), *layers("abc", "abc", "abc"), Entry("", "y")]

    assert repetitions(entries) == [Repetition(1, 3, blocks(0, 1, 2))]


def test_a_longer_block_that_saves_much_more_is_taken():
    assert repetitions(layers("a", "a", "b", "c", "a", "a", "b", "c")) == [Repetition(0, 4, blocks(0, 4))]
    assert repetitions(layers(*["ab"] * 5, "c", *["ab"] * 5, "c")) == [
        Repetition(0, 2, blocks(0, 1, 2, 3, 4)),
        Repetition(11, 2, blocks(6, 7, 8, 9, 10)),
    ]


def test_two_runs_of_blocks_are_found_one_after_the_other():
    assert repetitions(layers(*["ab"] * 6, "-", *["cde"] * 3)) == [
        Repetition(0, 2, blocks(0, 1, 2, 3, 4, 5)),
        Repetition(13, 3, blocks(7, 8, 9)),
    ]


def test_blocks_that_save_few_lines_are_left_out():
    assert repetitions(layers("ab", "ab")) == repetitions(layers("a", "a", "a", "a")) == repetitions([]) == []
    assert repetitions(layers("a", "a", "a", "a", "a")) == [Repetition(0, 1, blocks(0, 1, 2, 3, 4))]


def test_blocks_within_blocks_are_found_where_the_outer_ones_differ():
    entries = [Entry(f"stages.{stage}.blocks.{block}", token) for stage in (0, 1) for block in range(2 + stage)
               for token in "abcd"]  # fmt: skip

    assert [found.blocks for found in repetitions(entries)] == [
        ("stages.0.blocks.0", "stages.0.blocks.1"),
        ("stages.1.blocks.0", "stages.1.blocks.1", "stages.1.blocks.2"),
    ]


def test_a_layer_that_only_begins_like_the_others_is_in_no_block_with_them():
    assert repetitions(layers("ab", "ab", "ab", "abc")) == [Repetition(0, 2, blocks(0, 1, 2))]


def test_paths_of_one_block_count_up_by_the_same_number():
    even = [Entry(f"layers.{n}", "a", name=f"others.{2 * n}") for n in range(6)]
    alike = [Entry(f"layers.{n}", "a", name=f"others.{n + 3}") for n in range(6)]
    shared = [Entry(f"layers.{n}", "a", name="others.0") for n in range(6)]

    assert repetitions(even) == []
    assert repetitions(alike) == repetitions(shared) == [Repetition(0, 1, blocks(0, 1, 2, 3, 4, 5))]


@pytest.mark.parametrize("reads", [(5,), (7,), (10,)])
def test_a_block_that_reads_something_else_ends_the_run(reads):
    entries = [Entry("", "x"), *(Entry(f"layers.{n}", "a", reads=(n,)) for n in range(12))]
    entries[9] = replace(entries[9], reads=reads)

    assert repetitions(entries)[0] == Repetition(1, 1, blocks(*range(8)))


def two_reading_each(*inputs: Entry) -> list[Entry]:
    """Make a layer of two entries for each input, which the first of them reads."""
    layers_of_two = [
        Entry(f"layers.{n}", letter, reads=(n,) if letter == "a" else ()) for n in range(len(inputs)) for letter in "ab"
    ]
    return [*inputs, *layers_of_two]


def test_blocks_may_read_inputs_that_count_up_with_them():
    weights = [Entry("", "float32[2]", f"p_layers_{n}_weight", is_input=True) for n in range(6)]

    assert repetitions(two_reading_each(*weights)) == [Repetition(6, 2, blocks(0, 1, 2, 3, 4, 5))]


@pytest.mark.parametrize("difference", [{"name": "p_head_weight"}, {"token": "float32[3]"}, {"is_input": False}])
def test_a_block_that_reads_another_input_ends_the_run(difference):
    weights = [Entry("", "float32[2]", f"p_layers_{n}_weight", is_input=True) for n in range(6)]
    weights[3] = replace(weights[3], **difference)

    assert repetitions(two_reading_each(*weights)) == [Repetition(6, 2, blocks(0, 1, 2))]


def test_blocks_that_read_other_nodes_outside_are_not_alike():
    entries = [
        *(Entry("", f"f{n}") for n in range(6)),
        *(Entry(f"layers.{n}", "a", reads=(n // 5,)) for n in range(12)),
    ]

    assert [(found.start, found.length) for found in repetitions(entries)] == [(6, 1), (11, 1)]


@settings(max_examples=200)
@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=20))
def test_blocks_are_equal_in_order_and_apart(tokens):
    entries = layers(*tokens)
    letters = "".join(tokens)

    found = repetitions(entries)

    assert all(one.end <= other.start for one, other in pairwise(found))
    for block in found:
        count = len(block.blocks)
        assert letters[block.start : block.end] == letters[block.start : block.start + block.length] * count
        assert count > 1
        assert [entries[block.start + n * block.length].path for n in range(count)] == list(block.blocks)
