"""Constants in patterns (pytorch#195383, #192598)."""

from __future__ import annotations

import ast
import math

import pytest
import torch
import torch.fx
import torch.fx.subgraph_rewriter

import fxcore
from fxcore.matching.literals import constants_equal

NAN = math.nan


@pytest.mark.parametrize(
    "value",
    [0.0, -0.0, NAN, 1, True, "a", None, 1j, (1, [2.0]), slice(0, None), {"a": NAN}, torch.float32, torch.ones(2)],
)
def test_a_constant_is_itself(value):
    assert constants_equal(value, value)


@pytest.mark.parametrize("text", ["1000", "1.5", "'a b'", "[1.5, (2.5,)]", "1j", "{'a': 1000}"])
def test_equal_constants_need_not_be_one_object(text):
    assert constants_equal(ast.literal_eval(text), ast.literal_eval(text))


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (complex(0.0, 0.0), complex(0.0, -0.0)),
        ([1], (1,)),
        ([1], [1, 1]),
        ([1], [True]),
        (slice(0, 1), slice(0, True)),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": True}),
        (torch.tensor([1, 2]), torch.tensor([1, 2])),
        (complex(0.0, 1.0), complex(-0.0, 1.0)),
        (1.5, 2.5),
        (NAN, 1.0),
        ("a", "b"),
        (slice(0, 1, 2), slice(0, 1, 3)),
        ({"a": 1, "b": 2}, {"a": 1}),
    ],
)
def test_constants_that_a_program_can_tell_apart_differ(expected, obtained):
    assert not constants_equal(expected, obtained)


def count(fx, program, pattern, **options):
    traced = fx.symbolic_trace(program)
    rewriter = fx.subgraph_rewriter.replace_pattern_with_filters
    return len(rewriter(traced, pattern, lambda x: torch.abs(x), **options))


FAULTS = {
    "NaN is not found": (lambda x: torch.full_like(x, NAN), lambda x: torch.full_like(x, NAN), 0, 1),
    "-0.0 is taken for 0.0": (lambda x: torch.full_like(x, -0.0), lambda x: torch.full_like(x, 0.0), 1, 0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_constants_in_a_pattern_are_told_apart_where_torch_does_not(name):
    program, pattern, by_torch, rightly = FAULTS[name]

    assert count(torch.fx, program, pattern) == by_torch
    assert count(fxcore, program, pattern) == rightly


def add_and_multiply(x, a):
    return (x + a) * a


WILDCARDS = {
    "1 and True": (lambda x: (x + 1) * True, 1, 0),
    "0.0 and -0.0": (lambda x: (x + 0.0) * -0.0, 1, 0),
    "NaN and NaN": (lambda x: (x + NAN) * NAN, 0, 1),
    "2 and 2": (lambda x: (x + 2) * 2, 1, 1),
    "2 and 3": (lambda x: (x + 2) * 3, 0, 0),
}


@pytest.mark.parametrize("name", WILDCARDS)
def test_a_parameter_stands_for_one_constant_throughout(name):
    program, by_torch, rightly = WILDCARDS[name]

    def found(fx):
        return len(fx.replace_pattern(fx.symbolic_trace(program), add_and_multiply, lambda x, a: torch.abs(x)))

    assert found(torch.fx) == by_torch
    assert found(fxcore) == rightly


def test_ignored_literals_stand_for_constants_and_for_nothing_else():
    def program(x, y):
        return x + y

    def pattern(x):
        return x + 1

    # torch.fx takes y for a literal and drops it.
    assert count(torch.fx, program, pattern, ignore_literals=True) == 1
    assert count(fxcore, program, pattern, ignore_literals=True) == 0
    assert count(fxcore, lambda x: x + 2.5, pattern, ignore_literals=True) == 1


def test_ignored_literals_do_not_hide_an_operator():
    def program(x):
        return 3 + x

    def pattern(x, y):
        return torch.relu(y) + x

    with pytest.raises(KeyError):
        torch.fx.subgraph_rewriter.replace_pattern_with_filters(
            torch.fx.symbolic_trace(program), pattern, lambda x, y: x, ignore_literals=True
        )
    traced = fxcore.symbolic_trace(program)
    rewrite = fxcore.subgraph_rewriter.replace_pattern_with_filters
    assert rewrite(traced, pattern, lambda x, y: x, ignore_literals=True) == []


def test_ignored_literals_do_not_confuse_the_parameters():
    def found(fx):
        rewrite = fx.subgraph_rewriter.replace_pattern_with_filters
        traced = fx.symbolic_trace(lambda x: (x + 2) * 3)
        return len(rewrite(traced, add_and_multiply, lambda x, a: x * a, ignore_literals=True))

    # torch.fx forgets the 3.
    assert (found(torch.fx), found(fxcore)) == (1, 0)
