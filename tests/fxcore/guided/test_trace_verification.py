"""A graph is compared with its model on the example, on other values, and on other sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError, TraceError, VerificationError
from fxcore.guided.trace_verification import FreeSizes, verify_trace


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


@dataclass
class Result:
    values: dict


@pytest.mark.parametrize(
    ("model", "graph", "words"),
    [
        (lambda x: [x, x.shape[0]], lambda x: [x, len(x)], None),
        (lambda x: [x, x.shape[0]], lambda x: [x, 3], r"0 with 4 in dimension 0.*output\[1\] is 4 in eager, 3 in the"),
        (lambda x: [x, 4], lambda x: [x, 3], r"output\[1\] is 4 in eager, 3 in the graph"),
        (lambda x: (x, math.nan), lambda x: (x, math.nan), None),
        (
            lambda x: {"a": x},
            lambda x: {"b": x},
            r"output has the parts \[\"\['a'\]\"\] in eager, .*'b'.* in the graph",
        ),
        (lambda x: {"a": {"b": x > 0}}, lambda x: {"a": {"b": x > 1}}, r"output\['a'\]\['b'\] has other values in the"),
        (lambda x: Result({"a": x}), lambda x: Result({"a": x + 1}), r"output.values\['a'\] has other values in the"),
        (lambda x: (x, int), lambda x: (x, float), None),
        (lambda x: x.int(), lambda x: x.int() + 0, None),
        (lambda x: x.int(), lambda x: x.int() + 1, "output has other values in the graph than in eager"),
        (lambda x: x.to("meta"), lambda x: x.to("meta") + 1, None),
        (
            lambda x: x,
            lambda x: x.double(),
            r"output is torch.float32 of shape \[3\] in eager, torch.float64 of shape \[3\]",
        ),
        (
            lambda x: x,
            lambda x: x[None],
            r"output is torch.float32 of shape \[3\] in eager, torch.float32 of shape \[1, 3\]",
        ),
        (lambda x: x, lambda x: x.view(3, 3), "eager runs, and the graph raises RuntimeError: shape"),
    ],
)
def test_each_part_of_a_result_is_compared(model, graph, words):
    traced = fxcore.symbolic_trace(lambda x: x)
    traced.forward = graph
    if words is None:
        verify_trace(model, traced, torch.ones(3))
    else:
        with pytest.raises(VerificationError, match=words):
            verify_trace(model, traced, torch.ones(3))


def test_an_example_that_eager_or_the_guards_refuse_raises_their_error():
    def unrolled(x):
        return sum(x[index] for index in range(x.shape[0]))

    traced = fxcore.symbolic_trace(unrolled, example_inputs=torch.ones(3))

    with pytest.raises(IndexError, match="tuple index out of range"):
        verify_trace(unrolled, traced, torch.ones(()))
    with pytest.raises(GuardError, match="does not hold for these inputs"):
        verify_trace(unrolled, traced, torch.ones(2))


def test_a_graph_without_a_free_size_says_so():
    assert str(FreeSizes({}, {})) == "no size of an input is free"
