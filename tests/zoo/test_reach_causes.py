"""The causes of failure that docs/reach.md counts, named from what a tracer raises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from benchmarks.reach.causes import cause_of
from benchmarks.reach.outcome import VARIES
from benchmarks.reach.table import verdict
from benchmarks.reach.values import difference


class Branches(nn.Module):
    """Does one thing at a time that a proxy cannot answer."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x, flag=True):
        return getattr(self, self.what)(x, flag)

    def looks_at_shape(self, x, flag):
        return x if x.shape[0] * 2 > 3 else -x

    def looks_at_rank(self, x, flag):
        return x if x.dim() == 2 else -x

    def looks_at_dtype(self, x, flag):
        return x if x.dtype == torch.float32 else -x

    def looks_at_numbers(self, x, flag):
        return x if x.sum() > 0 else -x

    def looks_at_argument(self, x, flag):
        return x if flag else -x

    def iterates_shape(self, x, flag):
        rows, columns = list(x.shape)
        return x.reshape(columns, rows)

    def iterates_chunks(self, x, flag):
        return sum(list(x.chunk(2)))

    def asks_for_length(self, x, flag):
        return x.sum(len(x.shape) - 1)

    def makes_module(self, x, flag):
        return nn.ReLU()(nn.Linear(3, 3)(x))

    def writes_item(self, x, flag):
        x[0] = 1
        return x

    def gives_size(self, x, flag):
        return torch.zeros(x.shape[0], 3)

    def counts(self, x, flag):
        return [x for _ in range(x.shape[0])]

    def refuses(self, x, flag):
        if x.__class__ is not torch.Tensor:
            raise ValueError("give a tensor")
        return x


CAUSES = {
    "looks_at_shape": "control flow on a shape",
    "looks_at_rank": "control flow on a shape",
    "looks_at_dtype": "control flow on a dtype or device",
    "looks_at_numbers": "control flow on a tensor's numbers",
    "looks_at_argument": "control flow on an argument of forward",
    "iterates_shape": "iterating a shape",
    "iterates_chunks": "iterating chunks of a tensor",
    "asks_for_length": "len of a shape",
    "makes_module": "module made in forward",
    "writes_item": "item assignment",
    "gives_size": "a size given to a function of torch",
    "counts": "a size where Python needs an int",
    "refuses": "the model's own check refuses a proxy",
}


@pytest.mark.parametrize("library", [torch.fx, fxcore], ids=["torch.fx", "fxcore"])
@pytest.mark.parametrize("what", CAUSES)
def test_the_cause_of_a_failure_is_named(what, library):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        library.symbolic_trace(Branches(what))

    assert cause_of(caught.value) == CAUSES[what]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"status": "captured", "example": None, "fresh": None, "second": None}, "right"),
        ({"status": "captured", "example": None, "fresh": None, "second": "raises GuardError: no"}, "one size"),
        ({"status": "captured", "example": None, "fresh": None, "second": "tensor 0 has other values"}, "wrong"),
        ({"status": "captured", "example": None, "fresh": "tensor 0 has other values"}, "wrong"),
        ({"status": "captured", "example": "raises TypeError: no"}, "failed"),
        ({"status": "failed", "cause": "einops"}, "failed"),
        ({"status": "captured", "example": f"{VARIES}: tensor 0 has other values"}, "not comparable"),
        ({"status": "captured", "nodes": 3}, "not compared"),
        ({"status": "not there"}, "not measured"),
        (None, "not measured"),
    ],
)
def test_a_graph_is_wrong_only_if_it_gives_other_results_without_an_error(found, expected):
    assert verdict(found) == expected


def test_results_are_compared_in_containers_and_objects():
    class Output:
        def __init__(self, logits):
            self.logits = logits
            self.note = "text"

    one, other = torch.zeros(2), torch.ones(2)

    assert difference({"x": [one]}, {"x": [one.clone()]}) is None
    assert difference(Output(one), Output(other)) == "tensor 0 has other values"
    assert difference((one, one), (one,)) == "1 tensors in place of 2"
    assert difference(one, one.double()) == "tensor 0 has dtype torch.float64 in place of torch.float32"
    assert difference(one, torch.zeros(3)) == "tensor 0 has shape (3,) in place of (2,)"
