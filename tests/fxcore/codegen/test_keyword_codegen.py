"""Parameters that are given by name alone."""

from __future__ import annotations

import copy
import inspect
import pickle

import torch

import fxcore


def scaled(x, bias=0.0, *, scale):
    return x * scale + bias if x.dim() else x


def traced():
    return fxcore.symbolic_trace(scaled, example_inputs=(torch.ones(3),), example_kwargs={"scale": 2.0})


def test_a_keyword_without_default_behind_a_default_is_written_as_one():
    graph_module = traced()

    assert str(inspect.signature(graph_module.forward)) == "(x, bias=0.0, *, scale)"
    assert torch.equal(graph_module(torch.ones(2), scale=3.0), 3 * torch.ones(2))


def test_copies_and_pickles_are_written_so_too():
    for graph_module in (copy.deepcopy(traced()), pickle.loads(pickle.dumps(traced()))):
        assert torch.equal(graph_module(torch.ones(2), scale=3.0), 3 * torch.ones(2))
