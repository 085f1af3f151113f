from __future__ import annotations

import torch

import fxcore
from fixtures.oracle import assert_same


def chain(x):
    return torch.relu(x).neg().abs()


def test_order_is_told_after_any_move():
    def orders(fx):
        graph = fx.symbolic_trace(chain).graph
        x, relu, neg, absolute, output = graph.nodes
        seen = []
        relu.append(absolute)
        seen.append([sorted([output, absolute, neg, relu, x]), x < relu, absolute < neg, neg > absolute])
        x.prepend(output)
        relu.prepend(relu)
        seen.append([list(graph.nodes), list(reversed(graph.nodes)), output < x, x.prev, x.next, neg <= neg])
        return seen

    assert_same(orders)


def test_the_list_ends_in_its_root_on_both_sides():
    nodes = list(fxcore.symbolic_trace(chain).graph.nodes)

    assert nodes[0].prev.op == nodes[-1].next.op == "root"
