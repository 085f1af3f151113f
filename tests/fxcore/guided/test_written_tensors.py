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


@pytest.mark.parametrize(
    ("ask", "nodes"),
    [
        (lambda total: total * total.shape[0], "mul"),
        (lambda total: total * len(total), "mul"),
        (lambda total: total * total.dim(), "mul"),
        (lambda total: total * total.numel(), "mul"),
        (lambda total: total * 2 if total.is_floating_point() else total, "mul"),
        (lambda total: total * 2 if total.requires_grad else -total, "neg"),
        (lambda total: total * 2 if total.grad is None else total, "mul"),
        (lambda total: total.to(total.dtype), "to"),
        (lambda total: total.real * 2, "getattr_1 mul"),
        (lambda total: total.data * 2, "getattr_1 mul"),
        (lambda total: total.mT * 2, "getattr_1 mul"),
    ],
)
def test_facts_of_a_written_tensor_are_constants_and_its_views_are_calls(ask, nodes):
    def program(x):
        total = torch.zeros(3, 3)
        total[0] = x.sum()
        return ask(total)

    graph_module = fxcore.symbolic_trace(program, example_inputs=(X,))

    written = "x sum_1 _tensor_constant0 clone setitem"
    assert " ".join(node.name for node in graph_module.graph.nodes) == f"{written} {nodes} output"
    torch.testing.assert_close(graph_module(Y), program(Y))


class Assigns(torch.nn.Module):
    def __init__(self, name, change):
        super().__init__()
        self.plain, self.name, self.change = torch.zeros(4, 3), name, change
        self.register_buffer("held", torch.zeros(4, 3))

    def forward(self, x):
        setattr(self, self.name, self.change(getattr(self, self.name), x))
        return getattr(self, self.name) * 2


@pytest.mark.parametrize("name", ["plain", "held"])
@pytest.mark.parametrize(
    ("change", "nodes", "guards"),
    [
        (lambda tensor, x: tensor.add_(x), "x {0} add_ mul output", []),
        (
            lambda tensor, x: tensor + x,
            "x {0} add mul {0}_1 copy_ output",
            ["add(...).dtype == torch.float32", "add(...).shape == torch.Size([4, 3])"],
        ),
    ],
)
def test_a_tensor_that_is_written_and_put_back_is_written_once(name, change, nodes, guards):
    graph_module, eager = fxcore.symbolic_trace(Assigns(name, change), example_inputs=(X,)), Assigns(name, change)

    assert " ".join(node.name for node in graph_module.graph.nodes) == nodes.format(name)
    assert [str(guard) for guard in graph_module.graph.guards] == guards
    for x in (X, Y, X):
        assert torch.equal(graph_module(x), eager(x))
