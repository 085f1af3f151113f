"""A graph is compared with its model on the example, on other values, and on other sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import TraceError, VerificationError


def test_the_sizes_that_stayed_free_are_told():
    graph_module = fxcore.symbolic_trace(
        lambda x, y: x @ y if x.shape[0] % 2 == 0 else x,
        example_inputs=(torch.rand(2, 3), torch.rand(3, 5)),
        verify=True,
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"0": (0, 1), "1": (0, 1)}


def test_a_size_that_a_guard_fixes_is_told_with_the_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: sum(x[i] for i in range(x.shape[0])), example_inputs=torch.rand(2, 3), verify=True
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"0": (1,)}
    assert found.refused["0[0]"].startswith("x.shape[0] == 2: it is 3")


def test_a_value_that_was_computed_while_tracing_is_found():
    class Hidden(nn.Module):
        def forward(self, x):
            return x * _unseen_size(x)

    with pytest.raises(VerificationError) as caught:
        fxcore.symbolic_trace(Hidden(), example_inputs=torch.rand(2, 3), verify=True)

    message = str(caught.value)
    assert message.startswith(
        "the graph that was traced from Hidden does not do what the model does on inputs of another"
    )
    assert "output has other values in the graph than in eager" in message


def _unseen_size(x):
    return getattr(x, "example", x).shape[0]


def test_a_list_of_example_inputs_is_verified_like_a_tuple():
    class KeepsItsFirstInput(nn.Module):
        kept = None

        def forward(self, x, y):
            if self.kept is None:
                self.kept = x
            return self.kept + y

    with pytest.raises(TraceError, match="a second call of the model computes with state that the first call left"):
        fxcore.symbolic_trace(KeepsItsFirstInput(), example_inputs=[torch.rand(2), torch.rand(2)])
    found = fxcore.symbolic_trace(lambda x, y: x + y, example_inputs=[torch.rand(2), torch.rand(2)], verify=True)
    assert found.meta["free_sizes"].dimensions == {"0": (0,), "1": (0,)}


def test_the_model_is_left_as_it_was():
    model = nn.BatchNorm1d(3).train()

    fxcore.symbolic_trace(model, example_inputs=torch.rand(4, 3), verify=True)

    assert int(model.num_batches_tracked) == 0
    assert torch.equal(model.running_mean, torch.zeros(3))


def test_a_cache_of_another_call_is_found():
    class KeepsFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = x * 2
            return x + self.cache

    with pytest.raises(
        VerificationError, match=r"on the second of two calls\. .*self\.cache.*: output has other values in the graph"
    ):
        fxcore.symbolic_trace(KeepsFirst(), example_inputs=torch.rand(3), verify=True)


@pytest.mark.parametrize("enforce_guards", [None, False])
def test_a_size_that_a_guard_refuses_is_told(enforce_guards):
    graph_module = fxcore.symbolic_trace(
        lambda x: x.relu() if x.relu().shape[0] == 3 else x,
        example_inputs=torch.rand(3, 4),
        verify=True,
        enforce_guards=enforce_guards,
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"x": (1,)} or list(found.dimensions.values()) == [(1,)]
    assert all("shape[0] == 3" in told for told in found.refused.values())
