"""Tensors of the traced code that recorded calls write: later calls compute with the written values."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import fxcore
from fxcore.errors import TraceError

X, Y = torch.rand(4, 3), torch.rand(4, 3)


def with_statistics(x):
    mean, variance = torch.zeros(3), torch.ones(3)
    normal = F.batch_norm(x, mean, variance, training=True)
    return normal + mean + variance


def with_out(x):
    found = torch.empty(0)
    torch.add(x, 1, out=found)
    return found * 2


def in_place(x):
    total = torch.zeros(3)
    F.relu(total.sub_(1), inplace=True)
    total[0] = x.sum()
    return total * 2


def converted(x):
    total = torch.zeros(3)
    total[0] = x.sum()
    return total.type(torch.float64)


@pytest.mark.parametrize("function", [with_statistics, with_out, in_place, converted])
def test_a_written_tensor_has_the_values_of_the_run(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=(X,))

    torch.testing.assert_close(graph_module(Y), function(Y))
    torch.testing.assert_close(graph_module(X), function(X))


def test_only_the_written_tensor_is_made_anew():
    def forward(x):
        total = torch.zeros(3)
        total[0] = x.sum()
        return total * torch.tensor([1, 2, 3])

    graph_module = fxcore.symbolic_trace(forward, example_inputs=(X,))

    assert len(graph_module.graph.find_nodes(op="call_method", target="clone")) == 1
    torch.testing.assert_close(graph_module(Y), forward(Y))


def test_statistics_that_are_only_read_stay_constants():
    def forward(x):
        mean, variance = torch.zeros(3), torch.ones(3)
        return F.batch_norm(x, mean, variance, training=False) + mean

    assert "clone" not in fxcore.symbolic_trace(forward, example_inputs=(X,)).code


def test_a_write_into_a_sparse_tensor_of_the_code_is_refused():
    def forward(x):
        total = torch.zeros(3).to_sparse()
        total.add_(x.to_sparse())
        return total.to_dense()

    with pytest.raises(TraceError, match=r"a sparse tensor .* is written at .*: total.add_\(x.to_sparse\(\)\), and"):
        fxcore.symbolic_trace(forward, example_inputs=torch.ones(3))
