"""Nests of graph modules are built in as many steps as they have levels; counted, not timed."""

from __future__ import annotations

import pytest
from torch import nn

import fxcore
from fxcore import lazy_forward


def nest(depth):
    module = nn.ReLU()
    for _ in range(depth):
        graph = fxcore.Graph()
        graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
        module = fxcore.GraphModule({"inner": module}, graph)
    return module


@pytest.mark.parametrize("depth", [5, 40])
def test_what_is_inside_is_not_compiled_anew_at_each_level(monkeypatch, depth):
    for lazy in list(lazy_forward._OUTDATED):  # of other tests
        lazy.retire()
    monkeypatch.setattr(fxcore.GraphModule, "_somebody_overrides_recompile", False)  # as a class of another test does
    compiled = []
    recompile = fxcore.GraphModule.recompile
    monkeypatch.setattr(fxcore.GraphModule, "recompile", lambda self: compiled.append(self) or recompile(self))

    nest(depth)

    assert len(compiled) == depth


def test_what_has_changed_inside_is_compiled_with_the_outermost():
    outer = nest(3)
    innermost = outer.inner.inner
    with innermost.graph.inserting_before(innermost.graph.output_node()):
        neg = innermost.graph.call_method("neg", (innermost.graph.output_node().args[0],))
    innermost.graph.output_node().args = (neg,)

    outer.recompile()

    assert ".neg()" in innermost.code
