"""The answers that become guards, and the indices of recorded calls that do not."""

from __future__ import annotations

import torch

import fxcore

ITEMS = [1.0, 2.0, 3.0, 4.0]


def guards_of(function, *example):
    return [str(guard) for guard in fxcore.symbolic_trace(function, example_inputs=example).graph.guards]


def test_an_index_that_python_uses_is_a_guard():
    assert guards_of(lambda x: x * ITEMS[x.shape[0]], torch.rand(3)) == ["x.shape[0] == 3"]


def test_an_index_that_a_recorded_call_asks_for_is_no_guard():
    assert guards_of(lambda x: torch.narrow(x, 0, 0, x.shape[0] - 1), torch.rand(3)) == []


def test_calls_on_one_line_are_told_apart():
    function = lambda x: torch.narrow(x, 0, 0, x.shape[0] - 1) * ITEMS[x.shape[0]]  # noqa: E731 - one line is the point
    other = lambda x: ITEMS[x.shape[0]] * torch.narrow(x, 0, 0, x.shape[0] - 1)  # noqa: E731

    assert guards_of(function, torch.rand(3)) == guards_of(other, torch.rand(3)) == ["x.shape[0] == 3"]


def test_the_same_answer_twice_is_one_guard():
    assert guards_of(lambda x: x * ITEMS[x.shape[0]] + ITEMS[x.shape[0]], torch.rand(3)) == ["x.shape[0] == 3"]
