from __future__ import annotations

import torch

import fxcore
from fxcore.nodes.liveness import values_freed_after


def test_each_value_is_freed_after_its_last_reader():
    def function(x, y):
        total = x + y
        product = total * x
        return torch.cat([product, y])

    graph = fxcore.symbolic_trace(function).graph
    freed = values_freed_after(graph.nodes)

    assert {str(node): [str(value) for value in values] for node, values in freed.items()} == {
        "output": ["cat"],
        "cat": ["mul", "y"],
        "mul": ["add", "x"],
    }
