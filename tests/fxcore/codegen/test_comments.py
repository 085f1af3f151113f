from __future__ import annotations

import torch

from fixtures.oracle import assert_same
from fxcore.codegen.comments import innermost_frame


def test_the_innermost_frame_of_a_stack_is_found():
    stack = 'File "a.py", line 1, in outer\n    inner()\n  File "b.py", line 22, in inner\n    return x + 1\n'

    assert innermost_frame(stack) == ("b.py", "22", "inner", "return x + 1")
    assert innermost_frame("") is None
    assert innermost_frame(None) is None


def test_annotations_and_comments_are_torch_fx_s():
    def code(fx):
        graph = fx.symbolic_trace(lambda x: torch.relu(x).add(1).mul(2).neg()).graph
        values = [torch.ones(2, dtype=torch.int64), torch.nn.Parameter(torch.ones(2)), torch.ones(()), 3, None, (1, 2)]
        for node, value in zip(graph.nodes, values, strict=True):
            node.meta["val"] = value
        _, relu, add, mul, *_ = graph.nodes
        relu.stack_trace = add.stack_trace = 'File "m.py", line 1, in f\n    x = 1'
        mul.meta["custom"] = {"stage": "a" * 60, "n": 1}
        return graph.python_code("self", verbose=True, include_stride=True).src

    assert_same(code)
