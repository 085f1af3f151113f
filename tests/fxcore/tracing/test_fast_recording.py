"""A call that is recorded in one step leaves the same graph, and the same tables, as one recorded in many."""

from __future__ import annotations

import itertools
import sys

import pytest
import torch
from torch import nn

import fxcore
from fxcore.traceback import annotate, preserve_node_meta


class Overriding(fxcore.Tracer):
    def create_arg(self, a):
        return super().create_arg(a)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act, self.linear = nn.ReLU(), nn.Linear(2, 2)

    def forward(self, x, *, scale=2):
        x = self.act(self.linear(x)) * scale
        return torch.cat([x, self.act(input=x)], dim=-1).view(x.shape[0], -1)[:, :2] + self.linear.bias


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.again = self.blocks[0]

    def forward(self, x):
        return self.again(self.blocks(x), scale=x.mean())


def test_one_step_records_as_many_steps_do():
    recorded = []
    for tracer in (fxcore.Tracer(), Overriding()):
        graph = tracer.trace(Model())
        graph.lint()
        nodes = list(graph.nodes)
        assert all(before < after for before, after in itertools.pairwise(nodes))
        assert all(node in value.users for node in nodes for value in node.all_input_nodes)
        assert len(graph.nodes) == len(nodes)
        metas = [node.meta for node in nodes]
        recorded.append((str(graph), metas, tracer.node_name_to_scope, tracer.num_calls))

    assert recorded[0] == recorded[1]
    assert recorded[0][3]["blocks.0.act"] == 4


def test_a_block_that_the_model_does_not_hold_is_refused():
    class Makes(Model):
        def forward(self, x):
            return Block()(super().forward(x))

    for tracer in (fxcore.Tracer(), Overriding()):
        with pytest.raises(NameError, match="module is not installed as a submodule"):
            tracer.trace(Makes())


def python_calls(tracer, root):
    """Return the number of calls of Python functions while a tracer records 100 calls."""
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        tracer.trace(root)
    finally:
        sys.setprofile(None)
    return events.count("call")


def adds_a_hundred_times(x):
    for _ in range(100):
        x = x + 1
    return x


def test_one_step_takes_fewer_calls_than_many():
    # A third of the calls under torch 2.13, just above a half under 2.6.
    assert python_calls(fxcore.Tracer(), adds_a_hundred_times) < 0.7 * python_calls(Overriding(), adds_a_hundred_times)


class CallsModules(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.act, self.count = nn.ReLU(), count

    def forward(self, x):
        for _ in range(self.count):
            x = self.act(x)
        return x


def test_one_step_takes_fewer_calls_than_many_for_a_module_too():
    one, many = [
        python_calls(kind(), CallsModules(200)) - python_calls(kind(), CallsModules(100))
        for kind in (fxcore.Tracer, Overriding)
    ]

    assert one < 0.35 * many, "a quarter; a half without the step"


def test_a_node_made_after_the_trace_gets_a_free_name():
    graph = fxcore.Tracer().trace(Model())
    x = next(iter(graph.nodes))

    assert graph.create_node("call_function", torch.cat, ((x,),), name="cat_1").name == "cat_3"


def test_a_call_while_the_graph_has_an_index_is_found_in_it():
    neg = torch.neg  # a trace under torch 2.6 may put another function in its place

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            x = torch.neg(self.act(x))
            assert len(x.node.graph.find_nodes(op="call_function", target=neg)) == 1
            x = self.act(torch.neg(x))
            assert len(x.node.graph.find_nodes(op="call_function", target=neg)) == 2
            assert len(x.node.graph.find_nodes(op="call_module")) == 2
            return x

    fxcore.Tracer().trace(Counting()).lint()


class Pushing(fxcore.Tracer):
    """Notes a module of its own around each call of a module."""

    def call_module(self, m, forward, args, kwargs):
        self.module_stack["noted"] = ("noted", nn.Module)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.module_stack.pop("noted", None)


class PushingAndOverriding(Pushing, Overriding):
    pass


class Varied(nn.Module):
    """Calls in places, and under settings, where one step does not suffice."""

    def __init__(self, vary):
        super().__init__()
        self.vary, self.act, self.linear = vary, nn.ReLU(), nn.Linear(2, 2)
        self.block, self.pairs = Block(), nn.Bilinear(2, 2, 2)
        self.own, self.own_block, self.table = nn.ReLU(), Block(), torch.ones(2)
        self.own.forward = lambda x: x * 2
        self.own_block.forward = lambda x: x * 3

    def forward(self, x):
        x = self.pairs(self.act(x), x)  # the first call of a class is always made in many steps
        return self.vary(self, x)


def inserts(net, x):
    y = torch.relu(x) + 1
    with y.node.graph.inserting_before(y.node):
        z, act = torch.neg(x) * 2, net.act(x)
    return y + z + act


def owns(net, x):
    y = torch.relu(x)
    y.node.graph.owning_module = net
    return net.act(torch.neg(y))


def preserves_nothing(net, x):
    with preserve_node_meta(enable=False):
        return net.block(torch.relu(x))


def preserves(net, x):
    with preserve_node_meta(), annotate({"key": 1}):
        return net.block(torch.relu(x))


VARIATIONS = {
    "a call with two values": lambda net, x: net.pairs(x, x + 1),
    "a place before other nodes": inserts,
    "a graph with a module": owns,
    "a block that keeps no metadata": preserves_nothing,
    "a block that keeps metadata": preserves,
    "a call with a constant": lambda net, x: x + net.act(net.table) + net.act(net.linear.bias),
    "modules with a forward of their own": lambda net, x: net.own_block(net.own(x)),
    "blocks": lambda net, x: net.block(net.act(x)),
}


@pytest.mark.parametrize(
    "tracers", [(fxcore.Tracer, Overriding), (Pushing, PushingAndOverriding)], ids=["own", "user's"]
)
@pytest.mark.parametrize("name", VARIATIONS)
def test_one_step_records_as_many_steps_do_in_unusual_places(name, tracers):
    recorded = []
    for kind in tracers:
        graph = kind().trace(Varied(VARIATIONS[name]))
        recorded.append((str(graph), [node.meta for node in graph.nodes]))

    assert recorded[0] == recorded[1]
