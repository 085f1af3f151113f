from __future__ import annotations

from torch import nn

import fxcore
from fixtures.oracle import assert_same
from fxcore.unused_modules import unused_module_paths


def test_modules_that_are_not_needed_are_deleted_as_torch_fx_deletes_them():
    def left(fx):
        root = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), nn.Sequential(nn.Tanh()))
        module = fx.symbolic_trace(root)
        module.add_submodule("spare.inside", nn.Linear(1, 1))
        module.add_submodule("0.below_a_called_one", nn.ReLU())
        tanh = list(module.graph.nodes)[-2]
        tanh.replace_all_uses_with(tanh.args[0])
        module.graph.erase_node(tanh)
        module.delete_all_unused_submodules()
        return [name for name, _ in module.named_modules()], module

    assert_same(left)


def test_a_module_whose_parameter_is_read_stays():
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.outer = nn.Sequential(nn.Linear(1, 1), nn.ReLU())

        def forward(self, x):
            return x + self.outer[0].weight

    root = Reads()
    graph = fxcore.Tracer().trace(root)

    assert unused_module_paths(root, graph.nodes) == ["outer.1"]
