"""Inputs that a transform changes while it runs are told and put back."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fixtures.transform_models import Mutating, Residual, matrix
from fxcore.passes.shape_prop import ShapeProp
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.change_words import words_of
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.transform.fixture import FxTransform


def test_a_pass_that_runs_a_mutating_graph_on_the_example_is_told():
    x = matrix()
    before = x.clone()

    def shapes_recorded(gm):
        ShapeProp(gm).propagate(x)

    with pytest.raises(AssertionError, match="shapes_recorded, while it ran, changed the inputs of the check: "
                                             r"input 0 has other values; they were put back.*on a copy"):  # fmt: skip
        FxTransform()(shapes_recorded, Mutating(), x)
    assert torch.equal(x, before)


def test_a_pass_may_run_the_graph_on_the_example_where_that_changes_nothing():
    x = matrix(4, 4)

    def shapes_recorded(gm):
        ShapeProp(gm).propagate(x)

    FxTransform()(shapes_recorded, Residual(), x)


def test_a_pass_that_fails_leaves_model_and_inputs_as_they_were():
    x, model = matrix(4, 4), Residual()
    before, weights = x.clone(), copy.deepcopy(model.state_dict())

    def failing(gm):
        x.zero_()
        nn.init.zeros_(gm.lin.weight)
        raise KeyError("nothing")

    with pytest.raises(KeyError):
        FxTransform()(failing, model, x)
    assert torch.equal(x, before)
    assert torch.equal(model.lin.weight, weights["lin.weight"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a["plain"].add_(1), "input 0['plain'] has other values"),
        (lambda a: a["plain"].data.add_(1), "input 0['plain'] has other values"),
        (lambda a: a["plain"].requires_grad_(), "input 0['plain'] has requires_grad=True now"),
        (lambda a: setattr(a["plain"], "data", a["plain"].data.t().contiguous().t()), "input 0['plain'] has strides"),
        (lambda a: a["view"].zero_(), "input 0['view'] has other values"),
        (lambda a: a["expanded"].resize_(7), "input 0['expanded'] has other values"),
        (lambda a: a["learnt"].sum().backward(), "input 0['learnt'] has a gradient now"),
        (lambda a: a["learnt"].register_hook(print), "input 0['learnt'] has other tensor hooks"),
        (lambda a: a["sparse"].mul_(2), "input 0['sparse'] has other values"),
        (lambda a: a["list"].append(3), "input 0['list'][2] was missing and is 3"),
        (lambda a: a["list"].__setitem__(0, torch.ones(1)), "input 0['list'][0] holds something else"),
        (lambda a: a.pop("list"), "input 0['list'] was [1, 2] and is missing"),
        (lambda a: setattr(a["object"], "scale", 3.0), "input 0['object'].scale was 2.0 and is 3.0"),
        (lambda a: a["array"].fill(3), "input 0['array'] has other values"),
    ],
)
def test_each_change_is_named_and_undone(change, words):
    base = matrix()
    inputs: dict[str, Any] = {
        "plain": matrix() + 1,
        "view": base[:, 1:3],
        "expanded": torch.ones(1).expand(4),
        "learnt": matrix().requires_grad_(),
        "sparse": torch.eye(3).to_sparse(),
        "list": [1, 2],
        "object": SimpleNamespace(scale=2.0),
        "array": np.zeros(3),
    }
    objects = dict(inputs)
    snapshot = Snapshot.of_values(arguments_of((inputs,)).named())
    assert snapshot.changes() == []

    change(inputs)
    found = words_of(snapshot.changes())
    snapshot.restore()

    assert any(words in sentence for sentence in found), found
    assert snapshot.changes() == []
    assert list(inputs) == list(objects)
    assert all(inputs[key] is objects[key] for key in inputs)
    assert torch.equal(base, matrix())
