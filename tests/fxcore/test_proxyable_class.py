from __future__ import annotations

import torch

import fxcore
from fixtures.oracle import assert_same_success


def pair_class(fx):
    class Pair(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def swapped(self):
            return Pair(self.right, self.left)

    return Pair


def test_construction_from_stand_ins_is_recorded():
    def graph(fx):
        Pair = pair_class(fx)

        def function(x, pair):
            made = Pair(x, pair.left)
            return made.swapped(), Pair(torch.zeros(1), x)

        return fx.symbolic_trace(function).graph

    assert_same_success(graph)


def test_an_instance_made_of_constants_is_kept_on_the_module():
    Pair = pair_class(fxcore)

    traced = fxcore.symbolic_trace(lambda x: x.method(Pair(1, 2)))

    assert [node.target for node in traced.graph.find_nodes(op="get_attr")] == ["_Pair_constant_0"]
    assert traced._Pair_constant_0.left == 1


def test_outside_of_a_trace_the_class_is_an_ordinary_one():
    Pair = pair_class(fxcore)

    assert Pair(1, 2).swapped().left == 2
