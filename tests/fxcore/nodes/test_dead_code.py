from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import fxcore
from fixtures.oracle import assert_same
from fxcore.nodes.dead_code import remove_unread


def with_a_dead_chain(x, y, z=1):
    a = x + 1
    b = a * 2
    b.neg()
    return y


def test_a_chain_that_nobody_reads_goes_and_inputs_stay():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        return graph.eliminate_dead_code(), graph, graph.eliminate_dead_code()

    assert_same(cleaned)


def test_a_node_stays_if_the_caller_says_so():
    def cleaned(fx):
        graph = fx.symbolic_trace(with_a_dead_chain).graph
        graph.eliminate_dead_code(lambda node: node.is_impure() or node.name == "mul")
        return graph

    assert_same(cleaned)


def test_the_number_of_erased_nodes_is_told():
    graph = fxcore.symbolic_trace(with_a_dead_chain).graph

    assert remove_unread(graph, lambda node: node.is_impure()) == 3
    assert remove_unread(graph, lambda node: node.is_impure()) == 0


class WritesNobodySees(nn.Module):
    """Writes into values of its own that it never reads, as the auxiliary branch of a classifier does."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 3, 1)
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        functional.relu(self.norm(self.convolution(x)), inplace=True)
        self.relu(self.convolution(x))
        copied = x.clone()
        copied.add_(1)
        copied.relu_().mul_(2)
        return x + 1


def test_what_is_written_into_a_value_that_nobody_reads_goes_with_it():
    graph = fxcore.symbolic_trace(WritesNobodySees()).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "add", "output"]


def written_into_a_value_of_its_own(x):
    functional.softmax(x, 0).mul_(2)
    torch.linalg.inv(x).add_(1)
    nn.init.zeros_(x.sum(0))
    return x


def test_any_operator_that_returns_new_storage_may_be_written_into_unseen():
    graph = fxcore.symbolic_trace(written_into_a_value_of_its_own).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == ["x", "output"]


class WritesThroughALayer(nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x):
        self.relu(x).add_(1)
        return x


@pytest.mark.parametrize(("inplace", "kept"), [(False, ["x", "output"]), (True, ["x", "relu", "add_", "output"])])
def test_a_layer_that_works_in_place_returns_what_it_was_given(inplace, kept):
    graph = fxcore.symbolic_trace(WritesThroughALayer(inplace)).graph

    graph.eliminate_dead_code()

    assert [node.name for node in graph.nodes] == kept


def written_into_a_reader(x):
    y = x.clone()
    y.add_(1)
    return y


def written_through_a_view(x):
    y = x.clone()
    y.view(-1).add_(1)
    return y


def written_into_an_input(x, y):
    x.add_(1)
    return y


def written_where_a_function_wrote(x):
    functional.relu(x, True).add_(1)
    return x


def written_where_a_function_wrote_by_keyword(x):
    functional.relu(x, inplace=True).add_(1)
    return x


def written_into_what_an_operator_gave_back(x):
    x.type_as(x).add_(1)
    return x


def written_into_out(x, y):
    torch.add(x, 1, out=y).mul_(2)
    return y


def written_at_random(x):
    x.clone().uniform_()
    return x


def written_by_init(x):
    nn.init.uniform_(x.clone())
    return x


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (written_into_a_reader, "add_"),
        (written_through_a_view, "add_"),
        (written_into_an_input, "add_"),
        (written_where_a_function_wrote, "add_"),
        (written_where_a_function_wrote_by_keyword, "add_"),
        (written_into_what_an_operator_gave_back, "add_"),
        (written_into_out, "mul_"),
        (written_at_random, "uniform_"),
        (written_by_init, "uniform_"),
    ],
)
def test_a_write_that_somebody_may_notice_stays(function, kept):
    graph = fxcore.symbolic_trace(function).graph

    graph.eliminate_dead_code()

    assert kept in [node.name for node in graph.nodes]
