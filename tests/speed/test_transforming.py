"""A transform looks at the hierarchy of modules once, and a run of a graph takes few calls; counted, not timed."""

from __future__ import annotations

import torch
from torch import nn

import fxcore
from fixtures.call_counts import added_calls
from fxcore.passes.shape_prop import ShapeProp


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.neg(layer(x))
        return x


def test_the_hierarchy_is_walked_as_often_for_many_layers_as_for_few(monkeypatch):
    def walks(count):
        traced = fxcore.symbolic_trace(Layers(count))
        walked = []
        named_modules = nn.Module.named_modules

        def counted(self, *args, **kwargs):
            if self is traced:
                walked.append(self)
            return named_modules(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(nn.Module, "named_modules", counted)
            fxcore.Transformer(traced).transform()
        return len(walked)

    assert walks(3) == walks(30)


def test_finding_the_shape_of_a_real_tensor_takes_few_calls():
    def relus(count):
        graph = fxcore.Graph()
        value = graph.placeholder("x")
        for _ in range(count):
            value = graph.call_function(torch.relu, (value,))
        graph.output(value)
        return ShapeProp(fxcore.GraphModule(nn.Module(), graph))

    assert added_calls(relus, lambda prop: prop.propagate(torch.zeros(1))) < 22
