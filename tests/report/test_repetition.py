from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_fxgraph.report.repetition import Repetition, repetitions


def found_in(tokens, steps=lambda start, block, length: 0, may_start=lambda start, length: True):
    return repetitions(tokens, steps, may_start)


def test_a_block_that_stands_there_several_times_is_found_once():
    assert found_in("xabcabcabcy") == [Repetition(1, 3, 3)]


def test_a_longer_block_that_saves_much_more_is_taken():
    assert found_in("aabc" * 4) == [Repetition(0, 4, 4)]


def test_two_runs_of_blocks_are_found_one_after_the_other():
    assert found_in("abab" * 3 + "-" + "cde" * 3) == [Repetition(0, 2, 6), Repetition(13, 3, 3)]


def test_what_would_save_few_lines_is_left():
    assert found_in("abab") == found_in("aaaa") == found_in("abc") == found_in("") == []
    assert found_in("aaaaa") == [Repetition(0, 1, 5)]


def test_items_whose_steps_have_no_answer_end_a_run():
    assert found_in("ab" * 6, lambda start, block, length: None if block + length >= 8 else 0) == [Repetition(0, 2, 4)]


def test_steps_have_to_be_the_same_from_block_to_block():
    numbers = [0, 1, 2, 3, 4, 9, 20, 31, 42, 53]

    def steps(start, block, length):
        return tuple(numbers[place + length] - numbers[place] for place in range(block, block + length))

    assert found_in("a" * 10, steps) == [Repetition(0, 1, 5), Repetition(5, 1, 5)]


def test_blocks_begin_where_they_may():
    assert found_in("yzabcxyzabcxyzabcx", may_start=lambda start, length: start % 6 == 2) == [Repetition(2, 6, 2)]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 2), max_size=40))
def test_blocks_are_equal_in_order_and_apart(tokens):
    found = found_in(tokens)

    assert all(one.end <= other.start for one, other in pairwise(found))
    for block in found:
        first = tokens[block.start : block.start + block.length]
        assert tokens[block.start : block.end] == first * block.count
        assert block.count > 1


def test_work_is_bounded_where_every_try_is_in_vain():
    calls = [0]

    def never(start, block, length):
        calls[0] += length
        return

    found_in("ab" * 5000, never)

    assert calls[0] <= 21 * 10_000
