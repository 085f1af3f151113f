"""Nodes that call collectives or wait for them."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import fxcore
from fixtures.process_groups import needs_fake_group
from pytest_fxgraph.captures.collective_nodes import arguments_of, is_wait, kind_of, reduction_of
from pytest_fxgraph.captures.collective_trace import REDUCTION

pytestmark = needs_fake_group


def reduced(graph, op):
    return graph.call_function(dist.all_reduce, (graph.placeholder("x"),), {"op": op})


@pytest.mark.parametrize("op", [dist.ReduceOp.MAX, "max"])
def test_the_reduction_is_an_argument(op):
    node = reduced(fxcore.Graph(), op)
    assert kind_of(node) == "all_reduce"
    assert reduction_of(node, "all_reduce", arguments_of(node)) == "max"
    assert reduction_of(node, "broadcast", arguments_of(node)) is None


def test_a_call_that_a_pass_makes_has_the_reduction_of_the_object_that_it_takes():
    graph = fxcore.Graph()
    x, op = graph.placeholder("x"), graph.get_attr("op")
    op.meta[REDUCTION] = "max"
    x.meta[REDUCTION] = "avg"  # of the collective that made the value
    node = graph.call_function(torch.ops.c10d.allreduce_.default, ([x], None, op, None, True, -1))
    assert reduction_of(node, "all_reduce", arguments_of(node)) == "max"


def test_a_wait_is_a_function_or_a_method():
    graph = fxcore.Graph()
    work = graph.call_function(dist.irecv, (graph.placeholder("x"),))
    assert is_wait(graph.call_method("wait", (work,)))
    assert is_wait(graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (work,)))
    assert not is_wait(graph.call_module("wait", (work,)))
    assert not is_wait(work)
