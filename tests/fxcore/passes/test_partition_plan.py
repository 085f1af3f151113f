"""The plan of a split: its switches of global state, the order of its partitions, and the symbols between them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import fxcore
from fxcore.errors import GraphArgumentError, GraphError
from fxcore.passes.partition_plan import (
    PartitionPlan,
    check_partitions_rise,
    constant_switch,
    find_state_regions,
    is_state_switch,
    symbol_defined_by,
    symbols_in,
)


def plan_of(graph, **numbers):
    """Split a graph so that each named node is in the partition of its number."""
    return PartitionPlan(graph, lambda node: numbers[node.name], None)


def without_gradients():
    """Return a graph that switches gradients off before `neg` and on after it."""
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,), name="off")
    value = graph.call_function(torch.neg, (x,), name="neg")
    graph.call_function(torch._C._set_grad_enabled, (True,), name="on")
    graph.output(graph.call_function(torch.exp, (value,), name="exp"))
    return graph


def test_a_switch_holds_for_the_partitions_up_to_the_next_switch():
    graph = without_gradients()
    numbers = dict(zip(graph.nodes, (0, 0, 1, 2, 3), strict=False))

    regions = find_state_regions(
        [node for node in graph.nodes if node in numbers and node.op != "placeholder"], numbers
    )

    assert {switch.name: found for switch, found in regions.grad.items()} == {"off": [0, 1], "on": [2, 3]}
    assert regions
    assert not find_state_regions([], {})


def test_partitions_that_fall_under_a_grad_mode_are_refused():
    with pytest.raises(GraphArgumentError, match=r"increasing partitions: highest: 2, this node's: 1 \(on\)"):
        plan_of(without_gradients(), off=0, neg=2, on=1, exp=3)


def test_partitions_may_start_below_zero_and_stay_equal():
    nodes = [*without_gradients().nodes][:3]

    check_partitions_rise(nodes, dict(zip(nodes, (-1, -1, 0), strict=True)))


def test_partitions_in_a_circle_are_named_without_the_others():
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.neg, (x,), name="first")
    second = graph.call_function(torch.neg, (first,), name="second")
    third = graph.call_function(torch.neg, (second,), name="third")
    graph.call_function(torch.neg, (x,), name="apart")
    graph.output(third)

    with pytest.raises(GraphError, match="None of these can run first: 0, 1; give"):
        plan_of(graph, first=0, second=1, third=0, apart=2)


@pytest.fixture
def sizes():
    """Return two sizes that are symbols, and the mode that makes tensors of them."""
    shapes = ShapeEnv()
    with FakeTensorMode(shape_env=shapes) as mode:
        fake = mode.from_tensor(torch.empty(3, 5, device="meta"))
        numbers = [shapes.create_unbacked_symint() for _ in range(2)]
        yield [*numbers, fake]


def node_of(value):
    node = fxcore.Graph().placeholder("x")
    node.meta["example_value"] = value
    return node


def test_symbols_come_from_sizes_strides_and_offsets(sizes):
    first, second, _ = sizes
    names = [str(first), str(second)]

    assert [str(each) for each in symbols_in(node_of([first, torch.empty(second, 2), 7]))] == names
    assert [str(each) for each in symbols_in(node_of(torch.empty_strided((2, 2), (first, 1))))] == names[:1]
    assert symbols_in(node_of(torch.eye(2).to_sparse())) == symbols_in(node_of(None)) == []


def test_only_a_lone_symbol_is_defined_by_a_node(sizes):
    first, second, tensor = sizes

    assert str(symbol_defined_by(node_of(first))) == str(first)
    for other in (first + second, 3, tensor, None):
        assert symbol_defined_by(node_of(other)) is None


@pytest.mark.parametrize("is_defined", [True, False])
def test_symbols_are_handed_over_from_the_partition_that_defines_them(sizes, is_defined):
    first, second, _ = sizes
    graph = fxcore.Graph()
    x = graph.placeholder("x")
    own, other, value = (graph.call_function(torch.neg, (x,), name=name) for name in ("own", "other", "value"))
    graph.output(graph.call_function(torch.add, (value, own), name="reader"))
    own.meta["example_value"] = first if is_defined else None
    other.meta["example_value"] = second
    value.meta["example_value"] = [first, second]

    parts = plan_of(graph, own=0, other=1, value=2, reader=0).partitions

    assert list(parts["0"].inputs) == ["x", "value", "other"]
    assert list(parts["0"].dependencies) == ["1", "2"]
    assert (list(parts["1"].outputs), list(parts["1"].dependents)) == (["other"], ["0"])


@pytest.mark.parametrize(
    ("target", "args"),
    [(torch.is_grad_enabled, (True,)), (torch.is_inference_mode_enabled, ("mode",)), (None, (False,))],
)
def test_the_end_of_a_block_without_gradients_switches_them_on(target, args):
    graph = fxcore.Graph()
    mode = False if target is None else graph.call_function(target, name="mode")
    switch = graph.call_function(torch._C._set_grad_enabled, (mode,))

    assert tuple(each.name if isinstance(each, fxcore.Node) else each for each in constant_switch(switch)) == args


def test_the_end_of_autocast_keeps_its_argument():
    graph = fxcore.Graph()
    mode = graph.call_function(torch.is_grad_enabled)
    end = graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))

    assert constant_switch(end) == (mode,)


def test_switches_of_the_grad_mode_are_known_while_a_trace_replaces_their_functions():
    def without_gradients(x):
        with torch.no_grad():
            y = x * 2
        return x + y

    def switches():
        return [(node.name, constant_switch(node)) for node in nodes if is_state_switch(node)]

    nodes = fxcore.symbolic_trace(without_gradients, example_inputs=torch.rand(2, requires_grad=True)).graph.nodes

    def looking(x):
        assert switches() == [("_set_grad_enabled", (False,)), ("_set_grad_enabled_1", (True,))]
        return x

    fxcore.symbolic_trace(looking, example_inputs=torch.rand(2))
    looking(None)
