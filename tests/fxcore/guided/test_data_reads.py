"""An answer that follows from contents is refused; any other answer becomes a guard."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fxcore
from fxcore.errors import GuardError, TraceError
from fxcore.guided.data_reads import is_free_of_effects

EXAMPLE = (torch.ones(2, 3), torch.tensor([1, 2]))


def guards_of(question):
    """Return the guards of a trace that asks a question about a tensor `x` of numbers and a tensor `i` of integers."""

    def asks(x, i):
        return x + 1 if question(x, i) else x

    return [str(guard) for guard in fxcore.Tracer().trace(asks, example_inputs=EXAMPLE).guards]


OF_CONTENTS = {
    "a sum": lambda x, i: x.sum() > 0,
    "a part": lambda x, i: x.chunk(2)[0].sum() > 0,
    "a comparison of tensors": lambda x, i: torch.equal(x, x),
    "a random tensor": lambda x, i: torch.rand(2).sum() > 0,
    "a random tensor of a given form": lambda x, i: torch.rand_like(x).sum() > 0,
    "a random number": lambda x, i: torch.randint(0, 5, ()).item() > -1,
    "a number": lambda x, i: x.sum().item() > 0,
    "a sum of numbers": lambda x, i: x.sum().item() + 1 > 0,
    "a number in a list": lambda x, i: i.tolist()[0] > 0,
    "a tensor full of a number": lambda x, i: torch.full((2,), x.sum().item()).sum() > 0,
    "a type that a number decides": lambda x, i: torch.result_type(x, x.sum().item()) == torch.float32,
    "a number of found elements": lambda x, i: x.nonzero().shape[0] > 0,
    "the shape of found elements": lambda x, i: x.nonzero().shape == (6, 2),
    "the count of found elements": lambda x, i: x.nonzero().numel() > 0,
    "the length of found elements": lambda x, i: len(x.nonzero()) > 0,
    "the stride of found elements": lambda x, i: x.nonzero().t().stride()[1] > 1,
    "the number of their parts": lambda x, i: len(x.nonzero().split(2)) > 1,
    "a selection": lambda x, i: x[x > 0].shape[0] > 0,
    "a size that contents decide": lambda x, i: torch.zeros(i.max().item()).shape[0] > 1,
    "the sum of an array": lambda x, i: x.numpy().sum() > 0,
    "a number of an array": lambda x, i: i.numpy().tolist()[0] > 0,
    "the size of an array of found elements": lambda x, i: x.nonzero().numpy().shape[0] > 1,
    "the length of an array of found elements": lambda x, i: len(x.nonzero().numpy()) > 1,
}


@pytest.mark.parametrize("question", OF_CONTENTS.values(), ids=OF_CONTENTS)
def test_a_question_about_contents_is_refused(question):
    with pytest.raises(TraceError, match="It follows from the contents of a tensor, or from a random number"):
        guards_of(question)


OF_FORM = {
    "x.shape[0] > 1": lambda x, i: x.shape[0] > 1,
    "x.dim() > 1": lambda x, i: x.dim() > 1,
    "x.numel() > 1": lambda x, i: x.numel() > 1,
    "len(x) > 1": lambda x, i: len(x) > 1,
    "x.stride()[0] > 1": lambda x, i: x.stride()[0] > 1,
    "x.is_contiguous()": lambda x, i: x.is_contiguous(),
    "x.is_floating_point()": lambda x, i: x.is_floating_point(),
    "x.dtype == torch.float32": lambda x, i: x.dtype == torch.float32,
    "x.max(0).values.shape[0] > 1": lambda x, i: x.max(0).values.shape[0] > 1,
    "len(x.chunk(2)) == 2": lambda x, i: len(x.chunk(2)) > 1,
    "broadcast_shapes(x.shape, (2, 3)) == (2, 3)": lambda x, i: torch.broadcast_shapes(x.shape, (2, 3)) == (2, 3),
    # Contents decide about another size.
    "nonzero(...).shape[1] > 0": lambda x, i: x.nonzero().shape[1] > 0,
    "nonzero(...).dim() > 0": lambda x, i: x.nonzero().dim() > 0,
    "nonzero(...).dtype == torch.int64": lambda x, i: x.nonzero().dtype == torch.int64,
    "sum(...).shape[0] > 0": lambda x, i: x.nonzero().sum(0).shape[0] > 0,
    # Arrays of numpy.
    "x.numpy().shape[0] > 1": lambda x, i: x.numpy().shape[0] > 1,
    "x.numpy().ndim > 1": lambda x, i: x.numpy().ndim > 1,
    "len(x.numpy()) == 2": lambda x, i: len(x.numpy()) > 1,
    # The tensor is new, and its contents follow from no input.
    "not bool(zeros_like(...).sum() > 0)": lambda x, i: torch.zeros_like(x).sum() > 0,
    "bool(add(...).sum() > 0)": lambda x, i: (torch.zeros_like(x) + 1).sum() > 0,
    "zeros_like(...).sum().item() <= 0": lambda x, i: torch.zeros_like(x).sum().item() > 0,
}


@pytest.mark.parametrize(("guard", "question"), OF_FORM.items(), ids=OF_FORM)
def test_a_question_about_the_form_is_a_guard(guard, question):
    assert guards_of(question) == [guard]


def test_an_array_of_zeros_counts_as_contents():
    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        guards_of(lambda x, i: np.zeros_like(x.numpy()).sum() > 0)


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.value = torch.nn.Parameter(torch.ones(2))


@pytest.mark.parametrize(
    ("call", "is_free"),
    [
        (lambda graph, x: graph.call_method("item", (x,)), True),
        (lambda graph, x: graph.call_function(torch.rand, ((),)), True),
        (lambda graph, x: graph.get_attr("value"), True),
        (lambda graph, x: graph.call_method("add_", (x, 1)), False),
        (lambda graph, x: graph.call_function(torch.set_grad_enabled, (False,)), False),
        (lambda graph, x: graph.call_function(print, (x,)), False),
        (lambda graph, x: x, False),
        (lambda graph, x: graph.call_module("", (x,)), False),
    ],
    ids=["item", "random", "attribute", "write", "mode", "print", "input", "module"],
)
def test_a_node_may_go_if_it_changes_nothing(call, is_free):
    graph = fxcore.Graph(Held())

    assert is_free_of_effects(call(graph, graph.placeholder("x"))) is is_free


class Counts(torch.nn.Module):
    def forward(self, x):
        return int((x > -1).sum())


class AsksALeaf(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = Counts()

    def forward(self, x):
        return x * 2 if self.count(x) > 3 else x


def test_a_number_of_a_leaf_is_asked_of_the_leaf_again():
    model = AsksALeaf()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.ones(2, 2), leaf_modules=[Counts])

    assert [str(guard) for guard in graph_module.graph.guards] == ["count(x) > 3"]
    assert torch.equal(graph_module(torch.ones(4, 2)), model(torch.ones(4, 2)))
    with pytest.raises(GuardError, match=r"count\(x\) > 3"):
        graph_module(torch.ones(1, 2))


def test_a_number_of_a_drawn_array_is_drawn():
    with pytest.raises(TraceError, match="or from a random number"):
        fxcore.symbolic_trace(lambda x: x * float(np.random.rand(2)[0]), example_inputs=torch.ones(2))
