from __future__ import annotations

import torch

import fxcore
from fxcore.convexity import is_convex


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
