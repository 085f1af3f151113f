from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore.node_data.module_stack import innermost_call, nested_call


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(torch.relu(x)) + 1


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(self.block(x))


def stacks(graph):
    return [list(node.meta.get("nn_module_stack", {}).items()) for node in graph.nodes]


def test_nodes_tell_in_which_calls_of_modules_they_were_made_as_in_torch_fx():
    assert_same_success(lambda fx: stacks(fx.symbolic_trace(Twice()).graph))


def test_a_stack_that_a_tracer_changes_by_itself_is_what_its_nodes_get():
    def sights(fx):
        class Renaming(fx.Tracer):
            def call_module(self, m, forward, args, kwargs):
                self.module_stack["mine"] = ("mine", int)
                try:
                    return super().call_module(m, forward, args, kwargs)
                finally:
                    self.module_stack.pop("mine", None)

            def create_node(self, *args, **kwargs):
                if self.module_stack:
                    last = next(reversed(self.module_stack))
                    self.module_stack[last] = (last + "!", str)
                return super().create_node(*args, **kwargs)

        return stacks(Renaming().trace(Twice()))

    assert_same_success(sights)


def test_metadata_of_a_node_is_its_own():
    graph = fxcore.symbolic_trace(Twice()).graph
    first, second = [node for node in graph.nodes if node.op == "call_function"][:2]

    first.meta["nn_module_stack"].clear()
    first.meta["mine"] = 1

    assert second.meta.keys() == {"nn_module_stack"}
    assert second.meta["nn_module_stack"]


def test_copies_and_pickles_have_the_metadata_whether_somebody_looked_or_not():
    for look in (False, True):
        module = fxcore.symbolic_trace(Twice())
        expected = stacks(fxcore.symbolic_trace(Twice()).graph)
        if look:
            stacks(module.graph)
        again = fxcore.Graph()
        again.graph_copy(module.graph, {})

        assert stacks(copy.deepcopy(module.graph)) == expected
        assert stacks(again) == expected[:-1]
        assert stacks(pickle.loads(pickle.dumps(module)).graph) == expected
        assert isinstance(next(iter(again.nodes)).meta, dict)


def test_a_stack_that_somebody_filled_becomes_a_chain_of_calls():
    assert innermost_call(OrderedDict()) is None
    call = innermost_call(OrderedDict(a=("a", int), b=("a.b", str)))
    assert call.meta() == {"nn_module_stack": OrderedDict(a=("a", int), b=("a.b", str))}
    assert list(call.meta()["nn_module_stack"]) == ["a", "b"]


def test_a_call_knows_how_deep_it_is():
    outer = nested_call(None, "a", ("a", int))
    inner = nested_call(outer, "a.b", ("a.b", str))

    assert (outer.depth, inner.depth, inner.outer) == (1, 2, outer)
    assert innermost_call(OrderedDict(a=("a", int), b=("a.b", str), c=("c", int))).depth == 3
