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
from fxcore.node_data.purity import called_module, function_is_impure, is_impure, only_writes_first_argument
from fxcore.operators.effects import effects_of

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
