from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.passes.operator_support as theirs
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp

import fxcore
from fxcore.passes import operator_support as ours
from fxcore.passes.shape_prop import ShapeProp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, y):
        z = torch.add(self.linear(x), x, alpha=2)
        half = z.to(torch.float16)
        return torch.mul(input=half, other=half), y.size(), torch.add(y, y)


def traced(fx, propagate):
    gm = fx.symbolic_trace(Model())
    propagate(gm).propagate(torch.randn(2, 3), torch.arange(2))
    return gm


LINEAR = "torch.nn.modules.linear.Linear"
RULES = [
    lambda support: support.OperatorSupport(),
    lambda support: support.OperatorSupport({"torch.add": None, LINEAR: None}),
    lambda support: support.OperatorSupport({"torch.add": (([torch.float32], None), {}), "to": None}),
    lambda support: support.OperatorSupport({"torch.add": (([torch.float32, torch.int64], [torch.int64]), {})}),
    lambda support: support.OperatorSupport({"torch.mul": ((), {"other": [torch.float16], "gone": [torch.int8]})}),
    lambda support: support.OperatorSupport({"torch.mul": ((), {"other": [torch.float32]}), "size": None}),
    lambda support: support.OpSupports.decline_if_input_dtype(torch.float16),
    lambda support: support.OpSupports.decline_if_node_in_names({"add", "linear"}),
    lambda support: support.chain(
        support.OperatorSupport({"torch.add": None, "size": None}),
        support.OpSupports.decline_if_input_dtype(torch.int64),
    ),
    lambda support: support.any_chain(
        support.OperatorSupport({"size": None}), support.create_op_support(lambda modules, node: "linear" in modules)
    ),
]


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_nodes_are_supported_where_torch_says_so(rule):
    gm, their_gm = traced(fxcore, ShapeProp), traced(torch.fx, TorchShapeProp)
    modules, their_modules = dict(gm.named_modules()), dict(their_gm.named_modules())

    obtained = {node.name: rule(ours).is_node_supported(modules, node) for node in gm.graph.nodes}

    assert obtained == {node.name: rule(theirs).is_node_supported(their_modules, node) for node in their_gm.graph.nodes}


def test_the_base_class_asks_for_an_answer():
    with pytest.raises(TypeError, match="abstract"):
        ours.OperatorSupportBase()
