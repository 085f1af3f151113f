"""Linting asks a module for each path once; counted, not timed."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
import fxcore.passes.shape_prop


class CountsReads(dict):
    reads = 0

    def get(self, *args):
        self.reads += 1
        return super().get(*args)


def test_a_path_that_many_nodes_name_is_looked_up_once():
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for _ in range(100):
        value = graph.call_module("inner.layer", (value,))
    graph.output(value)
    module = fxcore.GraphModule({"inner.layer": nn.ReLU()}, graph)
    children = module.inner.__dict__["_modules"] = CountsReads(module.inner._modules)

    module.graph.lint()

    assert children.reads == 1


def test_shape_propagation_asks_a_plain_tensor_itself(monkeypatch):
    asked = []
    monkeypatch.setattr("torch._prims_common.is_contiguous", lambda *args, **kwargs: asked.append(args))
    module = fxcore.symbolic_trace(lambda x: torch.relu(x))

    fxcore.passes.shape_prop.ShapeProp(module).propagate(torch.zeros(2, 3))

    assert asked == []
    assert [node.meta["tensor_meta"].memory_format for node in module.graph.nodes] == [torch.contiguous_format] * 3
