"""Sizes that the contents of tensors decide about are refused; those beside them are guards."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import fxcore
from fxcore.errors import TraceError

CONTENTS = {
    "a size beside it": lambda edges: edges[:, edges[0] > 0].shape[0],
    "a size by chance equal": lambda edges: edges[:, edges[0] >= 0].shape[0],
    "after cat": lambda edges: torch.cat([edges[:, edges[0] > 0], edges], 1).shape[0],
    "after a layer": lambda edges: F.linear(edges.float()[:, edges[0] > 0].t(), torch.ones(5, 2)).shape[1],
    "of a part": lambda edges: edges[:, edges[0] > 0].unbind(0)[0].dim(),
    "a mask of the sizes alone": lambda edges: edges[torch.ones_like(edges, dtype=torch.bool)].shape[0],
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
    "a comparison of shapes": lambda edges: edges[edges > 0].shape == edges.shape,
}


@pytest.mark.parametrize("name", DECIDED)
def test_a_size_that_contents_decide_about_is_refused(name):
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 1, 0, 3, 3]])

    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        fxcore.symbolic_trace(lambda x: x * int(DECIDED[name](x)), example_inputs=edges)
