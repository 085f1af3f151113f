"""A transform looks at the hierarchy of modules once; counted, not timed."""

from __future__ import annotations

import torch
from torch import nn

import fxcore


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
