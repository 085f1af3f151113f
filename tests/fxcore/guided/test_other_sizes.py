"""Sizes that the contents of tensors decide about are refused; those beside them are guards."""

from __future__ import annotations

import logging

import pytest
import torch
from torch.nn import functional as F

import fxcore
from fxcore.errors import TraceError
from fxcore.guided.other_sizes import OtherSizes, leaves_of, other_number

CONTENTS = {
    "a size beside it": lambda edges: edges[:, edges[0] > 0].shape[0],
    "a size by chance equal": lambda edges: edges[:, edges[0] >= 0].shape[0],
    "after cat": lambda edges: torch.cat([edges[:, edges[0] > 0], edges], 1).shape[0],
    "after a layer": lambda edges: F.linear(edges.float()[:, edges[0] > 0].t(), torch.ones(5, 2)).shape[1],
    "of a part": lambda edges: edges[:, edges[0] > 0].unbind(0)[0].dim(),
    "a mask of the sizes alone": lambda edges: edges[torch.ones_like(edges, dtype=torch.bool)].shape[0],
    "the columns of indices": lambda edges: edges.nonzero().shape[1],
    "beside repeats of a dimension": lambda edges: edges.repeat_interleave(edges[0], 1).shape[0],
    "beside repeats of a named dimension": lambda edges: edges.repeat_interleave(edges[0], dim=-1).shape[0],
    "beside repeats of the first dimension": lambda edges: edges.t().repeat_interleave(edges[0], 0).shape[1],
    "beside a mask of two dimensions": lambda edges: edges.unsqueeze(2).expand(2, 5, 3)[edges > 0].shape[1],
    "a row of a mask": lambda edges: (edges > 0)[0].shape[0],
    "a row of bytes": lambda edges: edges.to(torch.uint8)[0].shape[0],
    "weights of a count": lambda edges: torch.bincount(torch.tensor([0, 1, 2, 0, 1]), edges[0].float()).shape[0],
    "repeats by a number": lambda edges: edges.repeat_interleave(2, 0).shape[0],
    "one argument of three": lambda edges: torch.where(edges > 0, edges, 1).shape[0],
    "beside a leaf": lambda edges: doubled(edges[:, edges[0] > 0]).shape[0],
    "a selection of the sizes alone": lambda edges: edges.masked_select(torch.eye(edges.shape[1])[:2] > 0).shape[0],
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_size_that_contents_do_not_decide_about_is_a_guard(name):
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 1, 0, 3, 3]])

    graph_module = fxcore.symbolic_trace(lambda x: x * int(CONTENTS[name](x)), example_inputs=edges)

    assert len(graph_module.graph.guards) >= 1
    assert torch.equal(graph_module(edges), edges * CONTENTS[name](edges))


DECIDED = {
    "a mask": lambda edges: edges[edges > 0].shape[0],
    "a mask that keeps all": lambda edges: edges[edges >= 0].shape[0],
    "number of elements": lambda edges: edges[:, edges[0] > 0].numel(),
    "after cat": lambda edges: torch.cat([edges[:, edges[0] > 0], edges], 1).shape[1],
    "after a view": lambda edges: edges[:, edges[0] > 0].reshape(-1).shape[0],
    "of a part": lambda edges: edges[:, edges[0] > 0].unbind(0)[0].shape[0],
    "indices": lambda edges: torch.where(edges)[0].shape[0],
    "a slice": lambda edges: edges[: edges.max().item()].shape[0],
    "a factory": lambda edges: torch.zeros(edges.max().item(), 3).shape[0],
    "repeats": lambda edges: edges[0].repeat_interleave(edges[1]).shape[0],
    "rows of indices": lambda edges: edges.nonzero().shape[0],
    "repeats of a dimension": lambda edges: edges.repeat_interleave(edges[0], 1).shape[1],
    "repeats of a named dimension": lambda edges: edges.repeat_interleave(edges[0], dim=-1).shape[1],
    "repeats of the first dimension": lambda edges: edges.t().repeat_interleave(edges[0], 0).shape[0],
    "repeats alone": lambda edges: torch.repeat_interleave(edges[1]).shape[0],
    "a selection": lambda edges: edges.masked_select(edges > 0).shape[0],
    "a mask of two dimensions": lambda edges: edges.unsqueeze(2).expand(2, 5, 3)[edges > 0].shape[0],
    "a slice beside a mask": lambda edges: edges[: edges[1, 0].item(), edges[0] > 0].shape[0],
    "different elements": lambda edges: edges.unique().shape[0],
    "different columns": lambda edges: edges.unique(dim=1).shape[1],
    "different neighbours": lambda edges: torch.unique_consecutive(edges[1], return_counts=True)[1].shape[0],
    "the largest count": lambda edges: edges[0].bincount().shape[0],
    "parts": lambda edges: len(edges[:, edges[0] > 0].unbind(1)),
    "a method of sizes": lambda edges: edges[edges > 0].shape.numel(),
    "a leaf": lambda edges: doubled(edges[:, edges[0] > 0]).shape[1],
    "a comparison of shapes": lambda edges: edges[edges > 0].shape == edges.shape,
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_size_that_contents_decide_about_is_refused(name):
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 1, 0, 3, 3]])

    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        fxcore.symbolic_trace(lambda x: x * int(DECIDED[name](x)), example_inputs=edges)


@pytest.mark.parametrize(
    ("number", "other"),
    [(0, 1), (1, 2), (2, 1), (3, 1), (8, 4), (-3, -2), (True, None), (2.0, None), ("2", None)],
)
def test_a_whole_number_has_a_second_value_that_is_seldom_larger(number, other):
    assert other_number(number) == other


@pytest.mark.parametrize(
    ("argument", "leaves"),
    [
        (1, [1]),
        ((1, [2, (3,)]), [1, 2, 3]),
        (slice(1, 2), [1, 2, None]),
        ({}, []),
        ({"a": 1, "b": [slice(2), {}]}, [1, None, 2, None]),
        (torch.Size([4, 5]), [4, 5]),
        (None, [None]),
    ],
)
def test_the_leaves_of_an_argument_are_its_values_and_the_ends_of_slices(argument, leaves):
    assert leaves_of(argument) == leaves


@pytest.mark.parametrize("was_disabled", [False, True])
def test_torch_logs_nothing_about_second_sizes_and_logs_as_before_afterwards(was_disabled, monkeypatch):
    log = logging.getLogger("torch._subclasses.fake_tensor")
    monkeypatch.setattr(log, "disabled", was_disabled)

    with OtherSizes().fake_tensors():
        assert log.disabled
        assert type(torch.empty(2)) is not torch.Tensor

    assert log.disabled is was_disabled
    assert type(torch.empty(2)) is torch.Tensor


@fxcore.wrap
def doubled(x):
    return x * 2


class Selected(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        selected = self.layer(x[x[:, 0] > 0])
        return selected.sum() + selected.shape[0]


@pytest.mark.parametrize("layer", [torch.nn.Linear(3, 2), doubled], ids=["a layer", "a leaf"])
def test_a_size_of_a_result_of_a_layer_or_a_leaf_may_follow_from_contents(layer):
    model = Selected(layer)

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.ones(2, 3))

    assert list(graph_module.graph.guards) == []
    for x in (torch.ones(2, 3), torch.ones(4, 3), torch.tensor([[1.0, -1, 2], [-1, 2, 3]])):
        assert torch.equal(graph_module(x), model(x))


def test_the_length_of_a_list_of_contents_is_refused():
    with pytest.raises(TraceError, match=r"'len_1' .* was asked for its length"):
        fxcore.symbolic_trace(lambda x: x * len(x[x > 0].tolist()), example_inputs=torch.ones(3))
