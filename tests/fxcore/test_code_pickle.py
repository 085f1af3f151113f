from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.fx
import torch.fx.graph_module as theirs
from torch import nn

import fxcore
from fxcore.graph_module import reduce_graph_module, reduce_package_graph_module


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.weight = nn.Parameter(torch.randn(2))

    def forward(self, x):
        return torch.add(self.block(x) * self.weight, 1)


def pickled(gm):
    """What a pickle of torch's holds: the attributes without the graph, and imports."""
    body = dict(vars(gm))
    del body["_graph"]
    return {**body, "_code": gm.code, "unread": 5, "_graphmodule_cls_name": "Own"}, "import torch\n"


def test_code_becomes_the_graph_that_torch_makes_of_it():
    model, x = Model(), torch.randn(3, 2)
    body, imports = pickled(fxcore.symbolic_trace(model))

    made = reduce_graph_module(body, imports)
    expected = theirs.reduce_graph_module(*pickled(torch.fx.symbolic_trace(model)))

    assert str(made.graph) == str(expected.graph)
    assert type(made).__name__ == type(expected).__name__ == "Own"
    assert made.unread == 5
    torch.testing.assert_close(made(x), model(x))


def test_stack_traces_come_back():
    body, imports = pickled(fxcore.symbolic_trace(Model()))
    body["_graphmodule_graph_node_meta_stack_trace"] = {"add": "the line"}

    made = reduce_graph_module(body, imports)

    assert {node.name: node.stack_trace for node in made.graph.nodes if node.stack_trace} == {"add": "the line"}


def test_code_of_a_package_is_imported_from_it():
    model, x = Model(), torch.randn(3, 2)
    gm = fxcore.symbolic_trace(model)
    body, _ = pickled(gm)
    importer = SimpleNamespace(import_module=lambda name: SimpleNamespace(forward=type(gm).forward))

    made = reduce_package_graph_module(importer, body, "fx-generated")

    assert str(made.graph) == str(gm.graph)
    torch.testing.assert_close(made(x), model(x))
