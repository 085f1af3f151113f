from __future__ import annotations

import collections
import copy
import pickle

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import PH

Point = collections.namedtuple("Point", "x y")


def total(tree):
    leaves, _ = torch.utils._pytree.tree_flatten(tree)
    return {"sum": sum(leaves), "first": [leaves[0]]}


TREES = {
    "dict": {"a": PH, "b": {"c": PH}},
    "list": [PH, (PH, PH)],
    "named tuple": Point(PH, [PH]),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_nested_inputs_and_outputs_are_flat_in_the_graph_and_nested_outside(tree):
    def sights(fx):
        here = torch.utils._pytree.tree_map(lambda _: fx.PH, tree)
        ones = torch.utils._pytree.tree_map(lambda _: 1, tree)
        module = fx.symbolic_trace(total, concrete_args={"tree": here})
        copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module))]
        results = [each(ones) for each in (module, *copies)]
        return (
            module.graph,
            module.code,
            results,
            module.graph.process_inputs(ones),
            module.graph.process_outputs([5, 6]),
        )

    assert_same_success(sights)


def test_inputs_nested_in_another_way_are_refused():
    def sights(fx):
        module = fx.symbolic_trace(total, concrete_args={"tree": {"a": fx.PH, "b": fx.PH}})
        return [lambda: module({"a": 1}), lambda: module(5), lambda: module({"a": 1, "b": 2, "c": 3})]

    assert_same(sights)


def test_defaults_and_nested_inputs_go_together():
    class Model(nn.Module):
        def forward(self, x, mask=None, options={"a": 1}):  # noqa: B006 - a default that has to be unpacked
            return x + options["a"] if mask is None else x

    module = fxcore.symbolic_trace(Model(), concrete_args={"mask": None, "options": {"a": PH}})

    assert module(1, None, {"a": 5}) == 6
    with pytest.raises(SyntaxError):
        torch.fx.symbolic_trace(Model(), concrete_args={"mask": None, "options": {"a": torch.fx.PH}})
