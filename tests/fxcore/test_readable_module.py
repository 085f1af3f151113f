from __future__ import annotations

import torch
from torch import nn

from fixtures.oracle import assert_same


class Inner(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def test_a_module_and_those_inside_are_one_readable_class(capsys):
    def texts(fx):
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inside = fx.symbolic_trace(Inner())

            def forward(self, x):
                return self.inside(x) + 1

        class KeepsGraphModules(fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):
                return isinstance(m, fx.GraphModule)

        root = Outer()
        module = fx.GraphModule(root, KeepsGraphModules().trace(root), "Named")
        for node in module.graph.nodes:
            node.meta["val"] = torch.ones(2, 3)
            node.stack_trace = 'File "model.py", line 3, in forward\n    return x'
        options = [{}, {"include_stride": True, "include_device": True}, {"colored": True}, {"expanded_def": True}]
        returned = [module.print_readable(**chosen) for chosen in options]
        return returned, capsys.readouterr().out, module.print_readable(print_output=False), str(module)

    assert_same(texts)
