"""Indices with proxies into tensors that are no proxies, and the state of torch after the trace."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import fxcore
from fxcore.guided.indexing import is_indexing, is_raised_by_indexing


class Table(nn.Module):
    """Has a tensor that is neither a parameter nor a buffer."""

    def __init__(self):
        super().__init__()
        self.table = torch.arange(40.0).reshape(8, 5)


class Sliced(Table):
    def forward(self, x):
        return x + self.table[: x.shape[0], : x.shape[1]]


class Indexed(Table):
    def forward(self, x):
        return x + self.table[x.shape[0]][: x.shape[1]]


class Gathered(Table):
    def forward(self, x):
        return x + self.table[x.long()].sum(-1)


class Written(nn.Module):
    def forward(self, x):
        made = torch.zeros(8, 5)
        made[: x.shape[0], : x.shape[1]] = 2
        made[x.shape[0] :] = x.sum()
        return made


@pytest.mark.parametrize("kind", [Sliced, Indexed, Gathered, Written])
def test_a_proxy_is_an_index_of_a_plain_tensor_and_its_size_stays_free(kind):
    model = kind()

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 3), enforce_guards=True)

    for size in ((2, 3), (4, 5)):
        x = torch.rand(size)
        assert torch.equal(graph_module(x), model(x))


def test_an_index_of_a_list_is_a_guard_and_the_model_keeps_nothing():
    class Listed(nn.Module):
        def forward(self, x):
            return x + torch.tensor([1.0, 2.0, 3.0]) + [5, 6, 7][x.shape[0]]

    model = Listed()
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 3))

    assert [str(guard) for guard in graph_module.graph.guards] == [
        "get_default_dtype() == torch.float32",
        "x.shape[0] == 2",
    ]
    assert list(graph_module._buffers) == ["_tensor_constant0"]


def test_a_failed_trace_leaves_no_constant_on_the_model():
    class Refused(nn.Module):
        def forward(self, x):
            return x + torch.ones(3) if (x + torch.ones(3)).sum() > 0 else x

    model = Refused()
    before = set(vars(model))

    with pytest.raises(fxcore.FxError):
        fxcore.symbolic_trace(model, example_inputs=torch.rand(2, 3))

    assert set(vars(model)) == before


def test_a_trace_leaves_no_tensor_a_sequence_to_torch():
    # A replacement of `Tensor.__getitem__` stays a slot of the class after its removal.
    number = torch.tensor(2.0)
    fxcore.symbolic_trace(Sliced(), example_inputs=torch.rand(2, 3))

    assert torch.tensor([number, number]).tolist() == [2.0, 2.0]


def test_the_instructions_that_read_write_or_delete_an_item():
    def reads(items, i):
        return items[i]

    def writes(items, i):
        items[i] = 0

    def deletes(items, i):
        del items[i]

    def adds(items, i):
        return items + i

    def indexing_instructions(function):
        code = function.__code__
        return sum(is_indexing(code, offset) for offset in range(-1, len(code.co_code) + 1))

    assert [*map(indexing_instructions, (reads, writes, deletes, adds))] == [1, 1, 1, 0]


def indexes(values):
    return values[7]


def indexes_by_a_method(values):
    return values.__getitem__(7)


def raises(values):
    raise IndexError(values[0])


def calls(values):
    return operator.itemgetter(7)(values)


@pytest.mark.parametrize(
    ("function", "is_indexed"),
    [(indexes, True), (indexes_by_a_method, False), (raises, False), (calls, False)],
)
def test_an_error_of_the_line_that_indexes_is_told_from_other_errors(function, is_indexed):
    with pytest.raises(IndexError) as caught:
        function([1, 2])

    assert is_raised_by_indexing(caught.value) is is_indexed


def test_an_error_that_was_never_raised_has_no_line():
    assert not is_raised_by_indexing(IndexError())


def test_a_tracer_sees_indices_in_each_of_its_traces():
    tracer, model = fxcore.Tracer(), Sliced()

    first, second = [tracer.trace(model, example_inputs=(torch.rand(3, 4),)) for _ in range(2)]

    assert str(first) == str(second)
    assert [list(each.guards) for each in (first, second)] == [[], []]
