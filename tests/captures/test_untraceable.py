"""Models whose Python code is not there, or not yet what it will be: each has its own words."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.captures.tracing import trace
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.errors import CaptureError, DocumentError


def model():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(3)

    def forward(self, x):
        return self.layer(x)


class ReadsLazily(Lazy):
    def forward(self, x):
        return x @ self.layer.weight.t()


@pytest.mark.parametrize("script", [torch.jit.script, lambda each: torch.jit.trace(each, torch.ones(1, 2))])
def test_a_scripted_model_is_refused(script):
    with pytest.raises(CaptureError, match=r"cannot trace Sequential: it is scripted, so that its Python code is gone"):
        to_graph_module(script(model()))


def test_a_compiled_model_is_refused():
    with pytest.raises(CaptureError, match=r"cannot trace Sequential: torch.compile compiled it.* model._orig_mod"):
        trace(torch.compile(model()))


def test_a_compiled_function_is_refused():
    def function(x):
        return x + 1

    with pytest.raises(
        CaptureError, match=r"function: torch.compile compiled it.* the function that torch.compile was"
    ):
        trace(torch.compile(function))


def test_a_model_with_a_compiled_part_is_refused_with_its_path():
    with pytest.raises(CaptureError, match=r"its module '0' was compiled by torch.compile; put the one from before in"):
        trace(nn.Sequential(torch.compile(model())))


def test_a_lazy_module_before_its_first_call_is_told_with_its_path():
    with pytest.raises(
        CaptureError, match=r"its module 'layer', a LazyLinear, is lazy and has no parameters before its"
    ):
        trace(Lazy(), example_inputs=torch.ones(1, 2))
    with pytest.raises(DocumentError, match=r"'layer.weight' of torch.nn.LazyLinear is not initialized yet"):
        build_document(trace(Lazy()))


def test_a_lazy_module_after_its_first_call_is_traced():
    lazy = Lazy()
    lazy(torch.ones(1, 2))

    assert build_document(trace(lazy, example_inputs=torch.ones(1, 2))).nodes[-1].value == "float32[1, 3]"
