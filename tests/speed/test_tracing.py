"""Tracing records in few steps where nothing is overridden, and in the same number of steps for each node."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import fxcore
from fixtures.call_counts import added_calls, calls_in
from fxcore.tracing import wrap


def layers(length):
    return nn.Sequential(*[nn.ReLU() for _ in range(length)])


def functions(length):
    def chain(x):
        for _ in range(length):
            x = torch.relu(x)
        return x

    return chain


class Overriding(fxcore.Tracer):
    def create_arg(self, a):
        return super().create_arg(a)


@pytest.mark.parametrize(("make", "most"), [(layers, 21), (functions, 14)])
def test_a_node_takes_few_calls(make, most):
    assert added_calls(make, lambda root: fxcore.Tracer().trace(root)) < most


@pytest.mark.parametrize("make", [layers, functions])
def test_a_tracer_that_overrides_something_is_asked_at_every_step(make):
    root = make(50)

    assert str(Overriding().trace(root)) == str(fxcore.Tracer().trace(root))
    assert calls_in(lambda: Overriding().trace(root)) > calls_in(lambda: fxcore.Tracer().trace(root)) + 100


def test_metadata_is_not_written_out_before_somebody_looks():
    nodes = list(fxcore.Tracer().trace(layers(3)).nodes)

    assert not any(isinstance(node._meta, dict) for node in nodes)
    assert list(nodes[1].meta["nn_module_stack"]) == ["0"]


def test_the_functions_of_math_are_looked_up_once(monkeypatch):
    fxcore.Tracer().trace(lambda x: x)
    looked = []
    plain = wrap.wrapped_function
    monkeypatch.setattr(wrap, "wrapped_function", lambda function: looked.append(function) or plain(function))

    graph = fxcore.Tracer().trace(lambda x: math.cosh(x))

    assert math.cosh not in looked  # those that other tests wrapped by name are
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [math.cosh]
