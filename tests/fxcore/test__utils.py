from __future__ import annotations

import importlib

from torch import nn

from fixtures.oracle import assert_same_success


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
