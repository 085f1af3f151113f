"""Wrong results of torch.fx: each shown with torch.fx, then right with fxcore."""

from __future__ import annotations

import types

import torch
import torch.fx
import torch.fx.experimental.optimization
from torch import nn
from torch.nn import functional

import fxcore
import fxcore.experimental.optimization


class SharedConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
        self.first, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
        nn.init.constant_(self.first.running_var, 4.0)
        nn.init.constant_(self.second.running_mean, 2.0)

    def forward(self, x):
        return self.first(self.convolution(x)), self.second(self.convolution(x))


def test_fusing_a_convolution_that_is_called_twice():
    """pytorch#104593, #197539: the first norm is folded into what the second call uses too."""
    model, x = SharedConvolution().eval(), torch.randn(1, 3, 2, 2)

    def is_right(fx):
        fused = fx.experimental.optimization.fuse(model)
        return all(torch.allclose(a, b, atol=1e-4) for a, b in zip(fused(x), model(x), strict=True))

    assert not is_right(torch.fx)
    assert is_right(fxcore)


def test_dead_code_elimination_drops_what_writes_in_place():
    """pytorch#68301: a call whose value nobody reads, but whose argument somebody does."""

    def program(x):
        y = x.clone()
        y.mul_(3)
        functional.relu(y, inplace=True)
        torch.neg(x[0], out=y[0])
        return y

    def result(fx):
        traced = fx.symbolic_trace(program)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        return traced(torch.ones(2, 2)).tolist()

    assert result(torch.fx) == [[1.0, 1.0], [1.0, 1.0]]
    assert result(fxcore) == [[-1.0, -1.0], [3.0, 3.0]]
    assert program(torch.ones(2, 2)).tolist() == [[-1.0, -1.0], [3.0, 3.0]]


class FunctionalDropout(nn.Module):
    def forward(self, x):
        return functional.dropout(x, 0.5, training=self.training)


def test_a_training_flag_is_baked_in():
    """pytorch#68190: mending it would change graphs, so tracing does as torch does; `remove_dropout` is the way."""

    def drops(module):
        return bool((module.eval()(torch.ones(1000)) == 0).any())

    model = FunctionalDropout().train()
    assert drops(torch.fx.symbolic_trace(model))
    assert drops(torch.fx.experimental.optimization.remove_dropout(FunctionalDropout().train()))

    assert drops(fxcore.symbolic_trace(FunctionalDropout().train()))
    assert not drops(fxcore.experimental.optimization.remove_dropout(FunctionalDropout().train()))
    assert not drops(fxcore.symbolic_trace(FunctionalDropout().eval()))


def test_a_forward_of_the_instances_own_is_not_traced():
    class Doubling(nn.Module):
        def forward(self, x):
            return x * 2

    model = Doubling()
    model.forward = types.MethodType(lambda self, x: x * 3, model)

    assert model(1) == 3
    assert torch.fx.symbolic_trace(model)(1) == 2
    assert fxcore.symbolic_trace(model)(1) == 3


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


def test_a_buffer_that_forward_changes_is_changed_by_tracing_and_never_again():
    """Recording the change would change the graph: torch's own keyword `proxy_buffer_attributes` does so in both."""

    def counts(fx, *, recorded):
        tracer, model = fx.Tracer(), Counting()
        tracer.proxy_buffer_attributes = recorded
        traced = fx.GraphModule(model, tracer.trace(model))
        return [traced(torch.zeros(1)).item() for _ in range(3)]

    assert counts(torch.fx, recorded=False) == [1.0, 1.0, 1.0] == counts(fxcore, recorded=False)
    assert counts(torch.fx, recorded=True) == [1.0, 2.0, 3.0] == counts(fxcore, recorded=True)


def test_a_buffer_that_is_not_persistent_becomes_so():
    model = nn.Module()
    model.register_buffer("shift", torch.ones(1), persistent=False)

    def state(fx):
        graph = fx.Graph()
        graph.output(graph.get_attr("shift"))
        return list(fx.GraphModule(model, graph).state_dict())

    assert state(torch.fx) == ["shift"]
    assert state(fxcore) == []
