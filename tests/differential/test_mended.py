"""Where fxcore differs from torch.fx on purpose: each fault is shown with torch.fx, then right with fxcore."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.fx

import fxcore
from fixtures.catalog import CATALOG


def test_a_buffer_that_is_not_persistent_stays_out_of_the_state_dict():
    def state(fx):
        return list(fx.symbolic_trace(CATALOG["buffer_not_persistent"].build()).state_dict())

    assert state(torch.fx) == ["shift"]
    assert state(fxcore) == []


def test_a_deep_copy_keeps_attributes_that_users_set():
    def note(fx):
        traced = fx.symbolic_trace(CATALOG["mlp"].build())
        traced.note = "kept"
        return getattr(copy.deepcopy(traced), "note", "lost")

    assert note(torch.fx) == "lost"
    assert note(fxcore) == "kept"


def test_dead_code_goes_from_a_graph_that_nobody_owns():
    def names_left(fx):
        graph = fx.Graph()
        x = graph.placeholder("x")
        graph.call_module("layer", (x,))
        graph.call_function(torch.neg, (x,))
        graph.output(x)
        graph.eliminate_dead_code()
        return [node.name for node in graph.nodes]

    with pytest.raises(AssertionError, match="owning_module not set"):
        names_left(torch.fx)
    assert names_left(fxcore) == ["x", "layer", "output"]


def test_code_is_written_for_a_getattr_without_arguments():
    def code(fx):
        graph = fx.Graph()
        graph.output(graph.call_function(getattr, ()))
        return graph.python_code("self").src

    with pytest.raises(IndexError):
        code(torch.fx)
    assert "getattr_1 = getattr()" in code(fxcore)


def test_dead_code_elimination_keeps_what_writes_into_a_value_that_is_read():
    def result(fx):
        def function(x):
            y = x.clone()
            y.add_(1)
            return y

        traced = fx.symbolic_trace(function)
        traced.graph.eliminate_dead_code()
        traced.recompile()
        return traced(torch.zeros(2))

    assert torch.equal(result(torch.fx), torch.zeros(2))
    assert torch.equal(result(fxcore), torch.ones(2))


def test_a_deep_copy_keeps_hooks():
    def result(fx):
        traced = fx.symbolic_trace(CATALOG["mlp"].build())
        traced.register_forward_hook(lambda module, args, output: output * 0)
        return float(copy.deepcopy(traced)(*CATALOG["mlp"].example_inputs()).abs().sum())

    assert result(torch.fx) != 0.0
    assert result(fxcore) == 0.0


def test_a_transformed_graph_still_says_which_functions_are_wrapped():
    def names_wrap(fx):
        traced = fx.symbolic_trace(CATALOG["module_functions"].build())
        return 'wrap("math_sqrt")' in fx.Transformer(traced).transform().code

    assert not names_wrap(torch.fx)
    assert names_wrap(fxcore)
