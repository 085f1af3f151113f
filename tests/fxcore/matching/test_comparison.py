"""Parameters of patterns inside slices and lists, and how far matching climbs."""

from __future__ import annotations

import pytest
import torch
import torch.fx

import fxcore
from fxcore.matching.comparison import is_convex


def nodes_of(program):
    return {node.name: node for node in fxcore.symbolic_trace(program).graph.nodes}


def program(x):
    a = torch.relu(x)
    b = torch.neg(a)
    c = torch.sigmoid(b)
    return a + c


def test_a_set_that_a_value_leaves_and_comes_back_to_is_not_convex():
    nodes = nodes_of(program)

    assert not is_convex([nodes["relu"], nodes["add"]])
    assert not is_convex([nodes["relu"], nodes["sigmoid"]])


def test_a_set_with_everything_in_between_is_convex():
    nodes = nodes_of(program)

    assert is_convex([nodes["relu"], nodes["neg"], nodes["sigmoid"], nodes["add"]])
    assert is_convex([nodes["neg"], nodes["sigmoid"]])
    assert is_convex([nodes["relu"]])
    assert is_convex([])


def test_values_that_leave_for_good_do_no_harm():
    nodes = nodes_of(lambda x: (torch.relu(x), torch.neg(torch.relu(x))))

    assert is_convex([nodes["relu"], nodes["neg"]])


def matches(fx, program, pattern, replacement):
    traced = fx.symbolic_trace(program)
    found = fx.replace_pattern(traced, pattern, replacement)
    traced.graph.lint()
    return traced, len(found)


@pytest.mark.parametrize("stop", ["a constant", "a value"])
def test_a_parameter_in_a_slice_stands_for_what_is_there(stop):
    """Literals in patterns (pytorch#78201, #139163, #68534): torch.fx compares slices as a whole."""
    program = (lambda x, n: x[0:2] + n) if stop == "a constant" else (lambda x, n: x[0:n] + n)

    def pattern(x, i):
        return x[0:i]

    def replacement(x, i):
        return torch.narrow(x, 0, 0, i)

    traced, found = matches(fxcore, program, pattern, replacement)

    assert matches(torch.fx, program, pattern, replacement)[1] == 0
    assert found == 1
    assert torch.equal(traced(torch.arange(5), 2), torch.tensor([2, 3]))


def test_a_parameter_in_a_list_stands_for_what_is_there_each_time():
    def program(x):
        return torch.nn.functional.pad(x, pad=[1, 1]) + 1

    def pattern(x, p):
        return torch.nn.functional.pad(x, pad=[p, p])

    traced, found = matches(fxcore, program, pattern, lambda x, p: torch.mul(x, p))

    assert found == 1
    assert traced(torch.tensor([3.0])).tolist() == [4.0]


def test_two_parameters_do_not_stand_for_one_value_as_in_torch():
    program, pattern, replacement = (lambda x: x * x, lambda a, b: a * b, lambda a, b: a + b)

    assert matches(torch.fx, program, pattern, replacement)[1] == 0
    assert matches(fxcore, program, pattern, replacement)[1] == 0


def test_a_pattern_deeper_than_pythons_stack_is_found():
    """torch.fx, which climbs by recursion, raises RecursionError here, after some seconds."""

    def deep(x):
        for _ in range(1100):
            x = torch.neg(x)
        return x

    traced, found = matches(fxcore, deep, deep, lambda x: x + 0)
    assert found == 1
    assert len(traced.graph.nodes) == 3


def test_a_list_that_holds_what_would_be_replaced_is_no_input():
    def program(x):
        a = torch.relu(x)
        return torch.cat([a, x]) + a

    def pattern(items, x):
        return torch.cat(items) + torch.relu(x)

    traced, found = matches(fxcore, program, pattern, lambda items, x: torch.stack(items))

    assert found == 0
    assert torch.equal(traced(torch.ones(1)), program(torch.ones(1)))
