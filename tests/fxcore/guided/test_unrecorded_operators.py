"""Tensors that traced code makes beside the graph: constants, constants of the default dtype, and refused ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import TraceError

X = torch.ones(3)


def guards_of(make):
    """Return the guards of a trace that adds a made tensor to its input, and check the graph."""

    def added(x):
        return x + make()

    graph_module = fxcore.symbolic_trace(added, example_inputs=X)
    torch.testing.assert_close(graph_module(X), added(X))
    return [str(guard) for guard in graph_module.graph.guards]


OF_DEFAULT_DTYPE = {
    "a number": lambda: torch.tensor(0.5),
    "a complex number": lambda: torch.tensor([0.5j]),
    "a computed number": lambda: torch.tensor([0.5]).exp(),
    "a quotient of integers": lambda: torch.tensor([1]) / 2,
    "a tensor of zeros": lambda: torch.zeros(3).exp(),
    "a complex tensor": lambda: torch.complex(torch.zeros(3), torch.zeros(3)).exp(),
    "a number and a tensor of a given dtype": lambda: torch.tensor([0.5]) + torch.zeros(3, dtype=torch.float64),
    "a number after one of a given dtype": lambda: torch.tensor([1.0], dtype=torch.float32) + torch.tensor([0.5]),
}


@pytest.mark.parametrize("make", OF_DEFAULT_DTYPE.values(), ids=OF_DEFAULT_DTYPE)
def test_a_constant_that_the_default_dtype_decides_has_a_guard(make):
    assert guards_of(make) == ["get_default_dtype() == torch.float32"]


OF_OWN_DTYPE = {
    "a number with a dtype": lambda: torch.tensor([0.5], dtype=torch.float32),
    "a computed number with a dtype": lambda: torch.tensor([0.5], dtype=torch.float64).exp(),
    "a complex number with a dtype": lambda: torch.tensor([0.5], dtype=torch.complex64).exp(),
    "a number with a dtype after one without": lambda: (torch.tensor(0.5), torch.tensor([1.0], dtype=torch.float32))[1],
    "zeros with a dtype": lambda: torch.zeros(3, dtype=torch.float32).exp(),
    "integers": lambda: torch.tensor([1, 2, 3]) * 2,
    "integers and a tensor with a dtype": lambda: torch.tensor([1]) + torch.zeros(3, dtype=torch.float64),
    "converted integers": lambda: torch.tensor([1]).to(dtype=torch.float32),
}


@pytest.mark.parametrize("make", OF_OWN_DTYPE.values(), ids=OF_OWN_DTYPE)
def test_a_constant_of_a_given_dtype_has_no_guard(make):
    assert guards_of(make) == []


def test_a_sparse_constant_has_no_storage_to_note():
    assert guards_of(lambda: (torch.eye(3).to_sparse() * 2).to_dense()[0]) == ["get_default_dtype() == torch.float32"]


def test_a_tensor_drawn_from_a_generator_of_the_traced_code_is_a_constant():
    def make():
        generator = torch.Generator().manual_seed(0)
        return torch.empty(3, dtype=torch.float32).uniform_(generator=generator)

    assert guards_of(make) == []


def test_a_tensor_drawn_past_the_graph_is_refused():
    with pytest.raises(
        TraceError, match=r"shape \[3\] cannot become a constant of the graph: it was drawn while tracing"
    ):
        guards_of(lambda: nn.Linear(2, 3).bias)


class Keeps(nn.Module):
    """Keeps its result past the graph."""

    def forward(self, x):
        self.kept = x * 2
        return self.kept + 1


def test_a_tensor_that_a_leaf_of_the_user_kept_is_read_by_looking_into_the_leaf():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Keeps()

        def forward(self, x):
            return self.part(x) + self.part.kept

    graph_module = fxcore.symbolic_trace(Model(), example_inputs=X, verify=False)

    assert torch.equal(graph_module(X * 3), Model()(X * 3))


def test_the_same_leaf_named_by_the_user_is_refused_by_its_name():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Keeps()

        def forward(self, x):
            return self.part(x) + self.part.kept

    with pytest.raises(TraceError, match="the leaf 'part' computed it on the example"):
        fxcore.symbolic_trace(Model(), example_inputs=X, leaf_modules=["part"])


class Held(nn.Module):
    """Holds a tensor as a plain attribute and state in a closure; `run` computes with them."""

    def __init__(self, run):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.table = torch.arange(3.0)
        weight = self.weight
        self.read = lambda: weight
        self.run = run

    def forward(self, x):
        return self.run(self, x)


@pytest.mark.parametrize(
    "run",
    [
        lambda model, x: x * model.read(),
        lambda model, x: x * (model.read() * 2),
        lambda model, x: x * model.read()[1:].sum(),
        lambda model, x: x * model.table[1:].sum(),
        lambda model, x: x * model.table,
    ],
    ids=["state", "computed from state", "a part of state", "a part of an attribute", "an attribute"],
)
def test_state_that_changes_after_the_trace_is_read_by_each_call(run):
    model = Held(run)
    graph_module = fxcore.symbolic_trace(model, example_inputs=X)

    with torch.no_grad():
        model.weight.mul_(3)

    assert torch.equal(graph_module(X), model(X))


def test_a_write_past_the_graph_into_a_parameter_is_recorded():
    def run(model, x):
        with torch.no_grad():
            model.read().mul_(2)
        return x * model.weight

    model = Held(run)
    graph_module = fxcore.symbolic_trace(model, example_inputs=X)

    assert model.weight.tolist() == [1, 1, 1], "the trace leaves the model"
    assert graph_module(X).tolist() == [2, 2, 2]
    assert graph_module(X).tolist() == [4, 4, 4]


def test_an_attribute_that_is_read_before_it_is_written_is_read_by_each_call():
    def run(model, x):
        total = model.table.sum()
        model.table.add_(x)
        return x * total

    model, eager = Held(run), Held(run)
    graph_module = fxcore.symbolic_trace(model, example_inputs=X)

    for _ in range(3):
        assert torch.equal(graph_module(X), eager(X))
