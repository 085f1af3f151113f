"""A transform goes from node to node where nobody wants to know more; counted, not timed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.node_source import NodeSource


class Layers(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU() for _ in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.neg(layer(x))
        return x


@pytest.fixture
def traced():
    return fxcore.symbolic_trace(Layers(20))


def test_nothing_is_run_and_nothing_recorded(traced, monkeypatch):
    for owner, name in ((fxcore.Tracer, "create_proxy"), (fxcore.Proxy, "__init__"), (fxcore.Interpreter, "run")):
        monkeypatch.setattr(owner, name, None)

    transformed = fxcore.Transformer(traced).transform()

    assert transformed.code == traced.code


def test_the_rest_is_recorded_from_a_special_node_on(traced, monkeypatch):
    graph = traced.graph
    with graph.inserting_before(graph.output_node()):
        part = graph.call_method("__getitem__", (graph.output_node().args[0], 0))
    graph.output_node().args = (part,)
    traced.recompile()
    run = []
    run_node = fxcore.Interpreter.run_node
    monkeypatch.setattr(fxcore.Interpreter, "run_node", lambda self, n: run.append(n.op) or run_node(self, n))

    fxcore.Transformer(traced).transform()

    assert run == ["call_method", "output"]


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


def test_metadata_that_nobody_looked_at_is_written_when_somebody_looks(traced, monkeypatch):
    written = []
    init = NodeSource.__init__
    monkeypatch.setattr(NodeSource, "__init__", lambda self, *args: written.append(self) or init(self, *args))

    transformed = fxcore.Transformer(traced).transform()

    assert written == []
    layer = next(node for node in transformed.graph.nodes if node.op == "call_module")
    assert [source.name for source in layer.meta["from_node"]] == ["layers_0"]
    assert len(written) == 1
