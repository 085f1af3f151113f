from __future__ import annotations

import inspect
import operator

import pytest
import torch
import torch._higher_order_ops.auto_functionalize  # torch 2.6 registers the operator with this import
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore import Graph, torch_fx_registry
from fxcore.node_data.purity import (
    called_module,
    effects_of_node,
    function_is_impure,
    is_impure,
    only_writes_first_argument,
)
from fxcore.operators.effects import attribute_effects, effects_of

aten = torch.ops.aten


def node_of(target, args=1, **kwargs):
    graph = Graph()
    x = graph.placeholder("x")
    if isinstance(target, str):
        return graph.call_method(target, (x,), kwargs)
    return graph.call_function(target, (x,) * args, kwargs)


SAME_AS_TORCH = {
    "pure": torch.relu,
    "assertion": torch._assert,
    "random": torch.rand_like,
    "dropout": F.dropout,
    "mutating overload": aten.add_.Tensor,
    "random overload": aten.bernoulli.default,
    "random packet": aten.bernoulli,
    "pure overload": aten.relu.default,
    "asynchronous assertion": aten._assert_async.msg,
}


@pytest.mark.parametrize("target", SAME_AS_TORCH.values(), ids=SAME_AS_TORCH)
def test_a_function_is_as_impure_as_torch_fx_says(target):
    theirs = torch.fx.Graph()
    expected = theirs.call_function(target, (theirs.placeholder("x"),))
    obtained = node_of(target)

    if "impure_random" in inspect.signature(torch.fx.Node.is_impure).parameters:
        assert obtained.is_impure() == expected.is_impure()
        assert obtained.is_impure(impure_random=False) == expected.is_impure(impure_random=False)
    else:  # an older torch knows nothing of randomness
        assert obtained.is_impure(impure_random=False) == expected.is_impure()


MUTATIONS = {
    "method": node_of("add_"),
    "dunder": node_of("__iadd__"),
    "operator": node_of(operator.iadd, 2),
    "assignment": node_of(operator.setitem, 3),
    "function": node_of(torch.relu_),
    "tensor method as a function": node_of(torch.Tensor.add_, 2),
    "container": node_of("append", 2),
    "deletion": node_of(operator.delitem, 2),
    "attribute": node_of(setattr, 3),
    "init": node_of(nn.init.zeros_),
    "out": node_of(torch.relu, out=torch.ones(1)),
    "inplace": node_of(F.relu, inplace=True),
}


@pytest.mark.parametrize("node", MUTATIONS.values(), ids=MUTATIONS)
def test_a_call_that_mutates_stays(node):
    assert node.is_impure()


def test_a_call_that_changes_how_all_that_follows_computes_stays():
    assert node_of(torch.set_default_dtype).is_impure()
    assert node_of(torch.set_flush_denormal).is_impure()


def test_a_name_that_merely_looks_like_a_mutation_is_pure():
    assert not node_of("__add__").is_impure()
    assert not node_of("sum").is_impure()
    assert not node_of(F.relu, inplace=False).is_impure()


def test_a_module_that_works_in_place_or_says_so_is_impure():
    root = nn.Sequential(nn.ReLU(inplace=True), nn.ReLU(), nn.ReLU())
    root[2]._is_impure = True
    nodes = list(fxcore.symbolic_trace(root).graph.nodes)[1:4]

    assert [node.is_impure() for node in nodes] == [True, False, True]


def test_a_module_that_is_not_there_calls_nothing_impure():
    node = Graph().call_module("gone", ())

    assert called_module(node, nn.Module()) is None
    assert not is_impure(node, nn.Module())
    assert is_impure(node, None)


def test_a_higher_order_operator_is_impure_if_it_or_the_operator_that_it_wraps_is_registered():
    higher_order, effectful = torch.ops.higher_order, torch_fx_registry.side_effectful_functions()
    writes = aten._assert_async.msg

    assert writes in effectful
    assert function_is_impure(higher_order.auto_functionalized, (writes,))
    assert not function_is_impure(higher_order.auto_functionalized, (aten.relu.default,))
    assert not function_is_impure(higher_order.auto_functionalized, ())
    assert not function_is_impure(higher_order.cond)


def test_a_function_that_is_not_hashable_was_never_registered():
    class Scale:
        __hash__ = None

        def __call__(self, x):
            return x * 2

    assert not function_is_impure(Scale())


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no collectives")
def test_a_collective_does_more_than_write_its_argument():
    assert only_writes_first_argument(node_of(torch.relu_), None)
    for collective in (torch.distributed.all_reduce, torch.distributed.broadcast, torch.distributed.barrier):
        assert not only_writes_first_argument(node_of(collective), None)
    for name in ("all_reduce", "all_reduce_", "broadcast_", "wait_tensor"):
        collective = getattr(torch.ops._c10d_functional, name).default
        assert not only_writes_first_argument(node_of(collective), None)


def test_no_collective_of_torch_can_be_removed_with_its_unread_tensor():
    collectives = []
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace in ("_c10d_functional", "c10d_functional", "c10d"):
            operation, _, overload = rest.partition(".")
            target = getattr(getattr(getattr(torch.ops, namespace), operation), overload or "default")
            effects = effects_of("call_function", target)
            if "collective" in effects.kinds or "waits" in effects.facts:
                collectives.append(target)

    assert any("all_reduce_" in str(target) for target in collectives)
    assert not [str(target) for target in collectives if only_writes_first_argument(node_of(target), None)]


def node_calling(op, target, args=(), kwargs=None):
    graph = Graph()
    x = graph.placeholder("x")
    return graph.create_node(op, target, tuple(x if each == "x" else each for each in args), kwargs or {})


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu, self.inplace, self.impure = nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU(inplace=True)
        self.impure._is_impure = True
        self.dropout, self.function = nn.Dropout(0.5), torch.dropout


@pytest.mark.parametrize(
    ("op", "target", "args", "kwargs", "writes"),
    [
        ("call_method", "add_", ("x", 1), {}, True),
        ("call_method", "add", ("x", 1), {}, True),  # it has no effect at all
        ("call_method", "uniform_", ("x",), {}, False),
        ("call_method", "add", ("x", 1), {"out": None}, False),
        ("call_method", "add_", (), {"input": 1}, False),
        ("call_function", torch.relu_, ("x",), {}, True),
        ("call_function", torch.relu, ("x",), {}, True),
        ("call_function", torch.manual_seed, (1,), {}, False),
        ("call_function", torch.rand, (2,), {}, False),
        ("call_module", "inplace", ("x",), {}, True),
        ("call_module", "impure", ("x",), {}, False),
        ("call_module", "relu", ("x",), {}, False),
        ("call_module", "missing", ("x",), {}, False),
        ("placeholder", "inplace", (1,), {}, False),
        ("output", "output", ("x",), {}, False),
    ],
)
def test_a_call_with_no_effect_but_a_write_to_its_first_argument(op, target, args, kwargs, writes):
    assert only_writes_first_argument(node_calling(op, target, args, kwargs), Layers()) is writes


def test_without_a_module_no_module_is_known_to_write():
    assert not only_writes_first_argument(node_calling("call_module", "inplace", ("x",)), None)


def test_the_effects_of_a_read_attribute_are_those_of_its_name():
    shape, data = attribute_effects("shape"), attribute_effects("data")
    assert shape != data

    assert effects_of_node(node_calling("call_function", getattr, ("x", "shape")), None) == shape
    assert effects_of_node(node_calling("call_function", getattr, ("x", "data", None)), None) == data
    assert effects_of_node(node_calling("call_function", getattr, ("x",), {"name": "shape"}), None) == (
        effects_of("call_function", getattr)
    )
    assert effects_of_node(node_calling("call_function", torch.add, ("x", 1)), None) == effects_of(
        "call_function", torch.add
    )


def test_the_effects_of_a_module_are_those_of_the_one_at_its_path():
    layers = Layers()

    def effects(path, module):
        return effects_of_node(node_calling("call_module", path, ("x",)), module)

    assert effects("dropout", layers) == effects_of("call_module", "dropout", layers.dropout)
    assert effects("dropout", layers) != effects("dropout", None)
    assert effects("function", layers) == effects("dropout", None) == effects("missing", layers)
    assert effects_of_node(node_calling("call_method", "dropout", ("x",)), layers) == effects_of(
        "call_method", "dropout"
    )


@pytest.mark.parametrize(
    ("op", "target", "impure"),
    [
        ("placeholder", "x", True),
        ("output", "output", True),
        ("get_attr", "relu", False),
        ("call_module", "relu", False),
        ("call_module", "inplace", True),
        ("call_module", "impure", True),
        ("call_module", "missing", False),
    ],
)
def test_inputs_outputs_and_modules_that_write_must_stay(op, target, impure):
    assert is_impure(node_calling(op, target), Layers()) is impure
    assert is_impure(node_calling(op, target), None) is (op != "get_attr")


@pytest.mark.parametrize("target", [torch.ops.aten.bernoulli.default, torch.ops.aten.bernoulli])
def test_random_numbers_count_unless_the_caller_says_otherwise(target):
    node = node_calling("call_function", target)

    assert function_is_impure(target)
    assert not function_is_impure(target, (), impure_random=False)
    assert is_impure(node, None)
    assert not is_impure(node, None, impure_random=False)
