"""Calls without a proxy, and calls that torch would not let be recorded: draws, checks, arrays of numpy."""

from __future__ import annotations

import random

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointFunction

import fxcore
from fxcore.errors import TraceError


@pytest.mark.parametrize(
    "function",
    [lambda x: x * random.uniform(1, 2), lambda x: x + torch.tensor(numpy.random.rand(3))],
    ids=["python", "numpy"],
)
def test_numbers_that_python_or_numpy_draws_are_drawn_anew_in_each_run(function):
    of_python, of_numpy = random.getstate(), numpy.random.get_state()[1].copy()

    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.ones(3), verify=True)

    assert random.getstate() == of_python
    assert (numpy.random.get_state()[1] == of_numpy).all()
    obtained = graph_module(torch.ones(3))
    assert not torch.equal(obtained, graph_module(torch.ones(3)))
    random.setstate(of_python)
    numpy.random.seed(3)
    expected = function(torch.ones(3))
    random.setstate(of_python)
    numpy.random.seed(3)
    assert torch.equal(graph_module(torch.ones(3)), expected)


def test_a_branch_on_a_drawn_number_is_refused():
    def skipping(x):
        return x if random.random() < 0.5 else x * 2

    with pytest.raises(TraceError, match="or from a random number") as caught:
        fxcore.symbolic_trace(skipping, example_inputs=torch.ones(3))

    assert "random.random() < 0.5" in str(caught.value)


def test_a_layer_that_is_drawn_is_refused():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

        def forward(self, x):
            return random.choice([*self.layers])(x)

    with pytest.raises(TraceError, match=r"was chosen at .*: return random.choice\(\[\*self.layers\]\)\(x\)"):
        fxcore.symbolic_trace(Either(), example_inputs=torch.ones(2, 3))


def test_a_check_of_contents_by_torch_stays_one():
    def checked(x):
        torch._check_tensor_all(x > 0, lambda: f"{x} is not positive")
        torch._check(x.dim() == 1)
        return x * 2

    graph_module = fxcore.symbolic_trace(checked, example_inputs=torch.ones(3))

    assert torch.equal(graph_module(torch.ones(4)), checked(torch.ones(4)))
    with pytest.raises(AssertionError, match="Check failed"):
        graph_module(-torch.ones(3))


def test_arrays_of_numpy_are_constants():
    offsets = numpy.array([0, 5, 11])

    graph_module = fxcore.symbolic_trace(
        lambda x: x + x.new_tensor(offsets) * x.new_tensor(offsets[1]), example_inputs=torch.ones(3)
    )

    x = torch.rand(2, 3)
    assert torch.equal(graph_module(x), x + torch.tensor([0, 25, 55]))


def test_a_checkpoint_of_two_inputs_is_recorded_as_its_operations():
    def checkpointed(x, y):
        return CheckpointFunction.apply(lambda a, b: a.sin() * b, False, x, y)

    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 2.0)
    graph_module = fxcore.symbolic_trace(checkpointed, example_inputs=(x, y))

    assert [node.name for node in graph_module.graph.nodes] == ["x", "y", "sin", "mul", "output"]
    assert torch.equal(graph_module(x, y), x.sin() * y)
