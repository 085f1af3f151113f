"""Questions about the types of inputs: the example answers, and the answer is a guard."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError

X = torch.rand(3, 4)
ASKED = {
    "a tensor": (lambda x: x * 2 if isinstance(x, torch.Tensor) else x[0], X, [X], ["isinstance(x, torch.Tensor)"]),
    "a list": (lambda x: x[0] * 2 if isinstance(x, list) else x[0], [X], (X,), ["isinstance(x, list)"]),
    "several types": (
        *(lambda x: x[0] if isinstance(x, (list, tuple)) else x, [X], X, ["isinstance(x, (list, tuple))"]),
    ),
    "a number": (
        lambda x: X * x if isinstance(x, int) else X + x,
        *(2, 2.0, ["isinstance(x, int)"]),
    ),
    "a parameter": (
        lambda x: x * 2 if isinstance(x, nn.Parameter) else x,
        *(X, nn.Parameter(X.clone()), ["not isinstance(x, Parameter)"]),
    ),
    "the very type": (
        lambda x: x * 2 if type(x) is torch.Tensor else x,
        *(X, nn.Parameter(X.clone()), ["type(x) is torch.Tensor"]),
    ),
    "dtype": (lambda x: x * 2 if x.dtype == torch.float32 else x, X, X.double(), ["x.dtype == torch.float32"]),
    "requires_grad": (
        lambda x: x * 2 if x.requires_grad else x,
        *(X, X.clone().requires_grad_(), ["not x.requires_grad"]),
    ),
    "device": (lambda x: x * 2 if x.device.type == "cpu" else x, X, X.to("meta"), ["x.device.type == 'cpu'"]),
}


def with_gradient():
    x = X.clone().requires_grad_()
    x.sum().backward()
    return x


@pytest.mark.parametrize("name", ASKED)
def test_a_question_about_a_type_is_a_guard(name):
    function, example, other, guards = ASKED[name]

    graph_module = fxcore.symbolic_trace(function, example_inputs=(example,))

    assert [str(guard) for guard in graph_module.graph.guards] == guards
    graph_module.check_guards(example)
    with pytest.raises(GuardError):
        graph_module.check_guards(other)


def test_a_gradient_that_is_compared_with_none_is_a_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.grad is None else x, example_inputs=(X.clone().requires_grad_(),)
    )

    assert [str(guard) for guard in graph_module.graph.guards] == ["x.grad is None"]
    with pytest.raises(GuardError, match=r"x\.grad is None"):
        graph_module.check_guards(with_gradient())


def is_sequence(value):
    return isinstance(value, (list, tuple))


def flattened(x):
    return x[0] * 2 if is_sequence(x) else x


def test_a_question_of_a_helper_is_a_guard_and_survives_a_pickle():
    graph_module = fxcore.symbolic_trace(flattened, example_inputs=([X],))

    copied = pickle.loads(pickle.dumps(graph_module))

    assert [str(guard) for guard in copied.graph.guards] == ["isinstance(x, (list, tuple))"]
    copied.check_guards((X, X))
    with pytest.raises(GuardError):
        copied.check_guards(X)


def test_types_of_values_that_the_graph_computes_are_no_guards():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if isinstance(x.shape[0], int) and type(x * 1) is torch.Tensor else x, example_inputs=(X,)
    )

    assert list(graph_module.graph.guards) == []


def test_the_names_mean_what_they_meant_after_the_trace():
    fxcore.symbolic_trace(flattened, example_inputs=(X,))

    assert not globals().keys() & {"isinstance", "type", "hasattr", "len"}


def test_the_length_of_a_tensor_stays_free():
    def spread(x):
        kept = x[x > 0.5]
        return x.reshape(len(x), 1, -1) * kept.new_ones(len(kept)).sum()

    graph_module = fxcore.symbolic_trace(spread, example_inputs=torch.rand(2, 3))

    assert not list(graph_module.graph.guards)
    x = torch.rand(5, 3)
    assert torch.equal(graph_module(x), spread(x))
