from __future__ import annotations

import pytest
import torch
from torch import nn

from fxcore import Graph, GraphModule
from fxcore.nodes.shared_storage import SharedStorage, StorageSets, is_repeatable


def test_a_set_is_named_by_its_first_member_however_it_was_joined():
    storage = StorageSets(6)
    storage.join(5, 3)
    storage.join(4, 5)
    storage.join(4, 1)

    assert [storage.first(position) for position in range(6)] == [0, 1, 2, 1, 1, 1]


def test_a_long_chain_is_followed_without_recursion():
    count = 50_000
    storage = StorageSets(count)
    for position in reversed(range(1, count)):
        storage.join(position, position - 1)

    assert storage.first(count - 1) == 0


def of_the_user(x):
    return x


def with_call(op, target, *args, root=None, **kwargs):
    """Return the storage of a graph that makes a value, calls a target on it and returns another; and two nodes."""
    graph = Graph()
    value = graph.call_function(torch.relu, (graph.placeholder("x"),))
    call = graph.create_node(op, target, (value, *args), kwargs)
    graph.output(graph.call_function(torch.neg, (value,)))
    module = GraphModule(root or nn.Module(), graph)
    nodes = {node.name: node for node in graph.nodes}
    return SharedStorage(graph.nodes, module), nodes["relu"], nodes[call.name], module


@pytest.mark.parametrize(
    ("op", "target", "args", "is_written"),
    [
        ("call_method", "add_", (1,), True),
        ("call_method", "uniform_", (), True),
        ("call_method", "add", (1,), False),
        ("call_function", nn.functional.relu, (True,), True),
        ("call_function", nn.functional.relu, (False,), False),
        ("call_function", torch.ops.aten.add_.Tensor, (1,), True),
        ("call_function", torch.ops.aten.add.Tensor, (1,), False),
        ("call_function", torch.Tensor.mul_, (2,), True),
        ("call_function", of_the_user, (), True),
        ("call_function", torch.nn.functional.dropout, (0.5, True), False),
    ],
)
def test_a_call_writes_where_the_table_of_effects_says_so_and_an_unknown_one_everywhere(op, target, args, is_written):
    storage, value, call, _ = with_call(op, target, *args)

    assert (storage.writers(value) == [call]) is is_written


@pytest.mark.parametrize(
    ("layer", "repeatable"),
    [
        (nn.Linear(2, 2), True),
        (nn.Dropout(0.5), False),
        (nn.BatchNorm1d(2), False),
        (nn.BatchNorm1d(2).eval(), True),
        (nn.Embedding(2, 2), True),
        (nn.Embedding(2, 2, max_norm=1.0), False),
        (nn.ReLU(inplace=True), False),
        (nn.Sequential(), False),
    ],
    ids=repr,
)
def test_a_layer_is_repeatable_if_it_draws_updates_and_writes_nothing(layer, repeatable):
    root = nn.Module()
    root.layer = layer
    _, _, call, module = with_call("call_module", "layer", root=root)

    assert is_repeatable(call, module) is repeatable


def test_a_write_at_either_end_of_a_range_is_within_it():
    storage, value, call, module = with_call("call_method", "add_", 1)
    after = next(node for node in module.graph.nodes if node.target is torch.neg)

    assert storage.is_written_between(value, call, call)
    assert storage.is_written_between(value, value, call)
    assert storage.is_written_between(value, call, after)
    assert not storage.is_written_between(value, after, after)
    assert not storage.is_written_between(value, value, value)
    assert storage.writers_after(value) == [call]
    assert storage.writers_after(call) == storage.writers_after(after) == []
