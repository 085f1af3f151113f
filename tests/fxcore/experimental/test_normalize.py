from __future__ import annotations

import pytest
import torch
import torch.fx
import torch.fx.experimental.normalize as theirs
import torch.nn.functional as F
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp as TorchShapeProp

import fxcore
import fxcore.experimental.normalize as ours
from fxcore.experimental.normalize import NormalizeArgs, NormalizeOperators
from fxcore.passes.shape_prop import ShapeProp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.pool = nn.MaxPool1d(2)
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        y = F.layer_norm(self.linear(x), [4], eps=1e-3)
        y = torch.add(y, self.weight)
        y = torch.cat([F.relu(y), F.max_pool1d(y, 1)], 1)
        return self.pool(torch.mul(y, 2.0)).clamp(0), torch.sigmoid(input=y), torch.nonzero(y > 0)


def prepared(fx, propagate):
    gm = fx.symbolic_trace(MODEL)
    propagate(gm).propagate(torch.randn(3, 4))
    return gm


MODEL = Model()


@pytest.mark.parametrize("only_kwargs", [True, False])
def test_arguments_are_normalized_as_in_torch(only_kwargs):
    ours = NormalizeArgs(prepared(fxcore, ShapeProp), only_kwargs).transform()
    expected = theirs.NormalizeArgs(prepared(torch.fx, TorchShapeProp), only_kwargs).transform()

    assert str(ours.graph) == str(expected.graph)
    assert ours.code == expected.code
    x = torch.randn(3, 4)
    torch.testing.assert_close(ours(x), MODEL(x))


def test_nodes_keep_their_metadata():
    gm = prepared(fxcore, ShapeProp)

    again = NormalizeArgs(gm).transform()

    before = {node.name: node.meta for node in gm.graph.nodes}
    assert all(node.meta == before[node.name] for node in again.graph.nodes if node.op != "output")


def every_operator(x, y):
    return [
        function(x, y) for function in (torch.add, torch.mul, torch.sub, torch.div, torch.floor_divide, torch.remainder)
    ] + [function(x, y) for function in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)]


@pytest.mark.parametrize("function", [every_operator, MODEL], ids=["operators", "model"])
def test_operators_are_normalized_as_in_torch(function):
    ours = NormalizeOperators(fxcore.symbolic_trace(function)).transform()
    expected = theirs.NormalizeOperators(torch.fx.symbolic_trace(function)).transform()

    assert str(ours.graph) == str(expected.graph)
    assert ours.code == expected.code


def test_keyword_arguments_are_not_lost_where_torch_loses_them():
    def function(x, y):
        return torch.add(x, y, alpha=2), torch.div(x, y, rounding_mode="floor")

    x, y = torch.tensor([5.0]), torch.tensor([3.0])
    wrong = theirs.NormalizeOperators(torch.fx.symbolic_trace(function)).transform()
    assert not torch.equal(wrong(x, y)[0], function(x, y)[0])

    again = NormalizeOperators(fxcore.symbolic_trace(function)).transform()

    assert torch.equal(again(x, y)[0], function(x, y)[0])
    assert torch.equal(again(x, y)[1], function(x, y)[1])


@pytest.mark.parametrize("transformer", [NormalizeArgs, NormalizeOperators])
def test_what_cannot_be_called_is_refused(transformer):
    gm = fxcore.symbolic_trace(lambda x: x)

    with pytest.raises(AssertionError, match=r"Expected callable target, got .*'relu' cannot be called"):
        transformer(gm).call_function("relu", (), {})


@pytest.mark.parametrize("kinds", [(True, True, False), (True, False, True), (False, True, True)])
def test_the_kinds_of_nodes_that_get_types_are_chosen_as_in_torch(kinds):
    def types(fx, normalize):
        annotated = normalize.AnnotateTypesWithSchema(fx.symbolic_trace(MODEL), *kinds).transform()
        return [(node.name, node.type) for node in annotated.graph.nodes]

    assert types(fxcore, ours) == types(torch.fx, theirs)


def test_arguments_become_keywords_and_all_nodes_get_types_by_default():
    gm = fxcore.symbolic_trace(MODEL)

    assert NormalizeArgs(gm).transform().code == NormalizeArgs(gm, True).transform().code
    assert NormalizeArgs(gm).transform().code != NormalizeArgs(gm, False).transform().code
    annotated = ours.AnnotateTypesWithSchema(gm).transform()
    assert annotated.code == ours.AnnotateTypesWithSchema(gm, True, True, True).transform().code
    for kinds in ((False, True, True), (True, False, True), (True, True, False)):
        assert annotated.code != ours.AnnotateTypesWithSchema(gm, *kinds).transform().code
