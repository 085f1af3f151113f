"""What torch.fx's rewriter misses, mistakes or puts in the wrong place: shown with torch.fx, then right with fxcore."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from torch import nn

import fxcore

NAN = float("nan")


def tanh(x):
    return torch.tanh(x)


def rewritten(fx, program, pattern, replacement, **options):
    traced = fx.symbolic_trace(program)
    return traced, len(fx.replace_pattern(traced, pattern, replacement, **options))


def reader_of_one_output_before_the_other(x, y):
    first = torch.relu(x)
    early = torch.neg(first)
    late = torch.sigmoid(y)
    return early * (first + late)


def test_a_replacement_is_put_after_one_that_reads_it():
    """pytorch#137280, #159613, #162019: the order of nodes where a pattern has several outputs."""

    def pattern(x, late):
        first = torch.relu(x)
        return first, first + late

    def replacement(x, late):
        total = torch.mul(x, late)
        return total, total

    def graph(fx):
        return rewritten(fx, reader_of_one_output_before_the_other, pattern, replacement)[0].graph

    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph(torch.fx).lint()
    graph(fxcore).lint()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = nn.Linear(2, 2), nn.ReLU()

    def forward(self, x):
        return self.act(self.first(x))


class Pattern(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.relu = nn.Linear(2, 2), nn.ReLU()

    def forward(self, x):
        return self.relu(self.linear(x))


def test_modules_of_a_pattern_match_by_path_only():
    """pytorch#78201, #139163, #68534: by class or configuration on request, since paths are what torch compares."""
    assert rewritten(torch.fx, Model(), Pattern(), tanh)[1] == 0
    assert rewritten(fxcore, Model(), Pattern(), tanh)[1] == 0
    assert rewritten(fxcore, Model(), Pattern(), tanh, match_modules="class")[1] == 1
    assert rewritten(fxcore, Model(), Pattern(), tanh, match_modules="config")[1] == 1


def test_a_parameter_within_a_slice_matches_nothing():
    """pytorch#78201, #139163, #68534: a slice is compared as a whole."""

    def program(x, n):
        return x[:, 1:n]

    def found(fx):
        return rewritten(fx, program, lambda x, stop: x[:, 1:stop], lambda x, stop: x.narrow(1, 1, stop))[1]

    assert found(torch.fx) == 0
    assert found(fxcore) == 1


def add_and_multiply(x, a):
    return (x + a) * a


def absolute(x):
    return torch.abs(x)


def absolute_of_first(x, a):
    return torch.abs(x)


CONSTANTS = {
    # program, pattern, found by torch.fx, found rightly
    "NaN is not itself": (lambda x: torch.add(x, NAN), lambda x: torch.add(x, NAN), 0, 1),
    "-0.0 is 0.0": (lambda x: torch.mul(x, -0.0), lambda x: torch.mul(x, 0.0), 1, 0),
    "a name for 1 and True": (lambda x: (x + 1) * True, add_and_multiply, 1, 0),
    "a name for NaN twice": (lambda x: (x + NAN) * NAN, add_and_multiply, 0, 1),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_compared_by_equality(name):
    """pytorch#195383, #192598."""
    program, pattern, by_torch, rightly = CONSTANTS[name]

    def found(fx):
        return rewritten(fx, program, pattern, absolute if "name" not in name else absolute_of_first)[1]

    assert found(torch.fx) == by_torch
    assert found(fxcore) == rightly


def test_a_literal_stands_for_any_value():
    """pytorch#192598: with `ignore_literals`, torch takes a computed value for a literal, and drops it."""

    def found(fx):
        traced = fx.symbolic_trace(lambda x, y: x + y)
        matches = fx.subgraph_rewriter.replace_pattern_with_filters(
            traced, lambda x: x + 1, lambda x: x, ignore_literals=True
        )
        return len(matches)

    assert found(torch.fx) == 1
    assert found(fxcore) == 0
