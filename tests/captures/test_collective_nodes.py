"""Nodes that call collectives or wait for them."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import fxcore
from fixtures.process_groups import fake_group, needs_fake_group
from pytest_fxgraph.captures.collective_nodes import (
    arguments_of,
    group_argument,
    is_wait,
    kind_of,
    name_of_call,
    name_of_group,
    reduction_of,
    schema_of_call,
    tensors_of,
)
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


def test_a_function_without_a_signature_has_numbered_arguments():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    with fake_group():
        group = dist.group.WORLD
        node = graph.call_function(Reduced.apply, (x, group))

        assert group_argument(node) is group
        assert name_of_group(fxcore.GraphModule({}, fxcore.Graph()), group) == group.group_name
    assert arguments_of(graph.call_function(torch.relu, (x,), {"out": 1})) == {"0": x, "out": 1}
    assert arguments_of(graph.call_function(dist.broadcast, (x,), {"src": 1})) == {"tensor": x, "src": 1}
    assert group_argument(graph.call_function(torch.relu, (x,))) is None
    assert name_of_group(fxcore.GraphModule({}, fxcore.Graph()), x) is None
    assert name_of_call(Reduced.apply) == "Reduced"
    assert name_of_call(torch.ops._c10d_functional.all_reduce_.default) == "all_reduce_"


class Reduced(torch.autograd.Function):
    """A collective with a gradient."""

    @staticmethod
    def forward(ctx, x, group):
        return x


def test_functions_of_torch_sum_unless_they_are_told_otherwise_and_operators_do_not():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    summed = graph.call_function(dist.all_reduce, (x,))
    operator = graph.call_function(torch.ops.c10d.allreduce_.default, ([x], None, None, None))

    assert reduction_of(summed, "all_reduce", arguments_of(summed)) == "sum"
    assert reduction_of(summed, "reduce", arguments_of(summed)) == "sum"
    assert reduction_of(operator, "all_reduce", arguments_of(operator)) is None


def test_other_nodes_are_no_collectives():
    graph = fxcore.Graph()
    x = graph.placeholder("x")

    for node in (x, graph.call_function(torch.relu, (x,)), graph.call_method("all_reduce", (x,))):
        assert kind_of(node) is None


def test_a_group_in_an_attribute_has_its_name():
    graph = fxcore.Graph()
    attribute, given = graph.get_attr("group"), graph.placeholder("group")
    owner = fxcore.GraphModule({"group": torch.nn.Module()}, graph)
    owner.group.group_name = 7

    assert name_of_group(owner, attribute) == "7"
    assert name_of_group(owner, given) is None
    assert name_of_group(owner, "tp") == "tp"


def test_the_tensors_of_a_node_are_those_of_its_value():
    node = fxcore.Graph().placeholder("x")
    first, second = torch.ones(2), torch.ones(3)

    assert [*tensors_of(node)] == []
    node.meta["example_value"] = second
    assert [*tensors_of(node)] == [second]
    node.meta["val"] = (first, [3, None])
    assert [*tensors_of(node)] == [first]


class Applies:
    def apply(self, x):
        return x


def test_a_call_is_named_by_its_last_name():
    assert name_of_call(Applies().apply) == "apply"
    assert name_of_call(dict.fromkeys) == "fromkeys"
    assert name_of_call(torch.ops._c10d_functional.all_reduce) == "all_reduce"
    assert name_of_call(dist.distributed_c10d._object_to_tensor) == "object_to_tensor"
    assert schema_of_call(torch.ops._c10d_functional.all_reduce).name == "_c10d_functional::all_reduce"
    assert schema_of_call(dist.all_reduce) is None
