from __future__ import annotations

import importlib

from torch import nn

from fixtures.oracle import assert_same_success
from fxcore import Graph
from fxcore._utils import first_call_function_nn_module_stack


class Model(nn.Module):
    def forward(self, x):
        return (x + 1).relu() * 2


def test_what_is_seen_of_nodes_is_what_torch_sees():
    def looks(fx):
        utils = importlib.import_module(f"{fx.__name__}._utils")
        graph = fx.symbolic_trace(nn.Sequential(Model())).graph
        add, *_, output = graph.nodes
        stack = utils.first_call_function_nn_module_stack(graph)
        stacks = str(stack and {name: (path, kind.__name__) for name, (path, kind) in stack.items()})
        nothing = utils.first_call_function_nn_module_stack(fx.Graph())
        contexts = [utils.get_node_context(node, count) for node in (add, output) for count in (1, 2, 3)]
        return stacks, nothing, contexts, utils.get_node_context(output)

    assert_same_success(looks)


def test_the_stack_is_of_the_first_call_of_a_function_that_has_one():
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["nn_module_stack"] = {"input": 1}
    graph.call_function(len, (x,))
    graph.call_method("neg", (x,)).meta["nn_module_stack"] = {"method": 1}
    graph.call_function(abs, (x,)).meta["nn_module_stack"] = {"function": 1}
    graph.call_function(abs, (x,)).meta["nn_module_stack"] = {"second": 1}

    assert first_call_function_nn_module_stack(graph) == {"function": 1}
