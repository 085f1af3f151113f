from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same_success
from fxcore import Tracer
from fxcore.errors import FxError


class Adds:
    def __call__(self, x, y=2):
        return x + y

    def method(self, x, *, y=3):
        return x + y

    @classmethod
    def of_the_class(cls, x):
        return x + 4


CALLABLES = {
    "object": (Adds(), 3),
    "method": (Adds().method, 4),
    "classmethod": (Adds.of_the_class, 5),
    "partial": (functools.partial(Adds().method, y=6), 7),
    "cached": (functools.lru_cache(lambda x: x + 7), 8),
    "function": (lambda x: x + 8, 9),
}


@pytest.mark.parametrize(("function", "expected"), CALLABLES.values(), ids=CALLABLES)
def test_every_callable_of_python_can_be_traced(function, expected):
    traced = fxcore.symbolic_trace(function)

    assert traced(1) == expected
    assert [node.name for node in traced.graph.nodes if node.op == "call_function"] == ["add"]


def test_a_forward_on_the_instance_is_the_one_that_calling_runs():
    model = nn.Identity()
    model.forward = lambda x: x + 100

    assert fxcore.symbolic_trace(model)(1) == model(1) == 101


def test_another_method_than_forward_is_traced_if_asked_for():
    class Model(nn.Module):
        def forward(self, x):
            return x

        def encode(self, x):
            return x * 2

    def graph(fx):
        class Encodes(fx.Tracer):
            traced_func_name = "encode"

        return Encodes().trace(Model())

    assert_same_success(graph)


@pytest.mark.parametrize("root", [3, None, "text", torch.ones(1)], ids=lambda root: type(root).__name__)
def test_what_is_not_callable_is_refused(root):
    with pytest.raises(AssertionError, match="Expected FunctionType, got <class") as caught:
        fxcore.symbolic_trace(root)

    assert isinstance(caught.value, FxError)


def test_a_builtin_without_a_signature_is_refused_with_advice():
    with pytest.raises(AssertionError, match="wrap it in a function that lists them"):
        Tracer().trace(torch.relu)
