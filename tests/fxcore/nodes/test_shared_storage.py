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


@pytest.mark.parametrize(
    ("op", "target", "args", "repeatable"),
    [
        ("call_function", torch.ops.aten.add.Tensor, (1,), True),  # an operator
        ("call_function", torch.relu, (), True),  # a new tensor
        ("call_function", torch.flatten, (), True),  # a view
        ("call_function", of_the_user, (), False),
        ("call_function", torch.ops.aten.rand_like.default, (), False),
        ("call_function", torch.ops.aten.native_dropout.default, (0.5, False), True),
        ("call_function", torch.ops.aten._assert_async.msg, ("no",), False),
        ("call_function", torch.set_grad_enabled, (), False),
        ("call_method", "relu", (), True),
        ("call_method", "view", (-1,), True),
        ("call_method", "add_", (1,), False),
        ("call_method", "of_the_user", (), False),
        ("get_attr", "weight", (), False),
        ("placeholder", "y", (), False),
    ],
)
def test_a_call_is_repeatable_if_it_is_known_and_has_no_effect(op, target, args, repeatable):
    graph = Graph()
    value = graph.placeholder("x")
    node = graph.create_node(op, target, (value, *args) if op.startswith("call_") else ())
    root = nn.Module()
    root.weight = nn.Parameter(torch.ones(2))

    assert is_repeatable(node, root) is repeatable


def test_a_layer_that_says_that_it_is_impure_is_not_repeatable():
    root = nn.Module()
    root.layer = nn.Linear(2, 2)
    root.layer._is_impure = True
    _, _, call, module = with_call("call_module", "layer", root=root)

    assert not is_repeatable(call, module)


def test_a_layer_with_hooks_is_not_repeatable():
    root = nn.Module()
    root.layer = nn.Linear(2, 2)
    _, _, call, module = with_call("call_module", "layer", root=root)
    hook = root.layer.register_forward_hook(lambda *_: None)
    assert not is_repeatable(call, module)
    hook.remove()
    root.layer.register_forward_pre_hook(lambda *_: None)

    assert not is_repeatable(call, module)


def test_joining_a_set_with_itself_changes_nothing():
    storage = StorageSets(3)
    storage.join(2, 1)
    storage.join(1, 2)
    storage.join(1, 1)

    assert storage.all_first() == [0, 1, 1]


def storage_of(build):
    """Return the storage of the graph that a function builds, and the graph's nodes by name."""
    graph = Graph()
    build(graph)
    root = nn.Module()
    root.weight, root.layer = nn.Parameter(torch.ones(2)), nn.Module()
    root.layer.state, root.layers = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    return SharedStorage(graph.nodes, root), {node.name: node for node in graph.nodes}


def names(nodes):
    return [node.name for node in nodes]


def test_inputs_share_memory_with_each_other_and_so_do_reads_of_one_attribute():
    def build(graph):
        x, y = graph.placeholder("x"), graph.placeholder("y")
        _, other, second = graph.get_attr("weight"), graph.get_attr("layers"), graph.get_attr("weight")
        graph.call_method("add_", (x, 1))
        graph.call_method("mul_", (second, 2))
        graph.output((y, other))

    storage, nodes = storage_of(build)

    assert names(storage.writers(nodes["y"])) == ["add_"]
    assert names(storage.writers(nodes["weight"])) == ["mul_"]
    assert not storage.writers(nodes["layers"])
    assert names(storage.made_before(nodes["y"])) == ["x"]
    assert names(storage.made_before(nodes["weight_1"])) == ["weight"]
    assert not storage.made_before(nodes["weight"])
    assert [name for name, node in nodes.items() if storage.is_returned(node)] == ["x", "y", "layers", "add_"]


def test_a_view_shares_memory_with_its_origin_alone_and_an_unknown_call_with_all_arguments():
    def build(graph):
        x, y = graph.call_function(torch.rand, (2,)), graph.call_function(torch.rand, (2,))
        graph.call_function(torch.ops.aten.view_as.default, (x, y))
        graph.call_function(of_the_user, (y,), {"other": graph.call_function(torch.neg, (x,))})
        graph.output(None)

    storage, nodes = storage_of(build)

    assert names(storage.made_before(nodes["view_as_default"])) == ["rand"]
    assert names(storage.made_before(nodes["of_the_user"])) == ["rand_1", "neg"]


def test_a_view_of_what_a_keyword_gives_shares_memory_with_every_argument():
    def build(graph):
        x, y = graph.call_function(torch.rand, (2,)), graph.call_function(torch.rand, (2,))
        graph.call_function(torch.Tensor.view_as, (), {"other": y, "self": x})
        graph.output(None)

    storage, nodes = storage_of(build)

    assert names(storage.made_before(nodes["view_as"])) == ["rand", "rand_1"]


def test_an_unknown_module_writes_its_inputs_and_the_attributes_below_its_path():
    def build(graph):
        x, below, beside = graph.placeholder("x"), graph.get_attr("layer.state"), graph.get_attr("layers")
        graph.call_module("layer", (x,))
        graph.output((below, beside))

    storage, nodes = storage_of(build)

    assert [name for name, node in nodes.items() if storage.writers(node)] == ["x", "layer_state", "layer"]


def test_a_list_of_outputs_is_written_tensor_by_tensor():
    def build(graph):
        first, second = graph.call_function(torch.rand, (2,)), graph.call_function(torch.rand, (2,))
        graph.call_function(torch.ops.aten._foreach_add_.Scalar, ([first, 3, second], 1))
        graph.output(None)

    storage, nodes = storage_of(build)

    assert names(storage.writers(nodes["rand"])) == ["_foreach_add__scalar"]
    assert names(storage.writers(nodes["rand_1"])) == ["_foreach_add__scalar"]
