"""Equal questions are kept once; questions that only look alike are all kept."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fxcore.errors import GuardError

X = torch.rand(3, 4)


def guards_of(graph_module):
    return [str(guard) for guard in graph_module.graph.guards]


def test_a_question_about_the_same_value_is_kept_once():
    graph_module = fxcore.symbolic_trace(
        lambda x: x * 2 if x.shape[0] == 3 and x.shape[0] == 3 else x, example_inputs=(X,)
    )

    assert guards_of(graph_module) == ["x.shape[0] == 3"]


def test_questions_about_items_of_a_list_are_all_kept():
    def doubled(tensors):
        return sum([(torch.relu(each) * (2 if torch.relu(each).shape[0] == 3 else 5)).sum() for each in tensors])

    graph_module = fxcore.symbolic_trace(doubled, example_inputs=([X, X],))

    assert guards_of(graph_module) == ["len(tensors) == 2", *["relu(...).shape[0] == 3"] * 2]
    with pytest.raises(GuardError):
        graph_module.check_guards([X, torch.rand(2, 4)])


def test_questions_of_a_layer_that_is_called_twice_are_all_kept():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            x, y = self.layer(x), self.layer(y)
            return x.sum() * (2 if x.shape[0] == 3 else 1) + y.sum() * (2 if y.shape[0] == 3 else 1)

    graph_module = fxcore.symbolic_trace(Shared(), example_inputs=(X, X.clone()))

    assert guards_of(graph_module) == ["self.layer(...).shape[0] == 3"] * 2
    with pytest.raises(GuardError):
        graph_module.check_guards(X, torch.rand(2, 4))
    with pytest.raises(GuardError):
        graph_module.check_guards(torch.rand(2, 4), X)


def test_questions_of_a_recursion_are_all_kept():
    def grown(x, depth):
        x = torch.cat([x, x])
        x = x * 2 if x.shape[0] > 5 else x
        return x if depth == 0 else grown(x, depth - 1)

    graph_module = fxcore.symbolic_trace(lambda x: grown(x, 2), example_inputs=(X,))

    assert guards_of(graph_module) == ["cat(...).shape[0] > 5"] * 3


def test_a_question_before_and_behind_a_change_of_shape_is_two_questions():
    def changed(x):
        x = x.clone()
        before = x.shape
        x.unsqueeze_(0)
        return x * 2 if before[0] == 3 and x.shape[0] == 1 else x

    graph_module = fxcore.symbolic_trace(changed, example_inputs=(X,))

    assert guards_of(graph_module) == ["clone(...).shape[0] == 3", "clone(...).shape[0] == 1"]
    assert torch.equal(graph_module(X), changed(X))
    names = [node.name for node in graph_module.graph.guards.graph.nodes]
    assert names.index("getattr_1") < names.index("getattr_2")


def test_assumptions_about_contents_before_and_behind_a_write_are_two_guards():
    def written(x):
        x = x.clone()
        first = fxcore.assume(x.sum() > 0)
        x.neg_()
        return x * 2 if first and not fxcore.assume(x.sum() > 0) else x

    graph_module = fxcore.symbolic_trace(written, example_inputs=(torch.ones(3),))

    assert len(graph_module.graph.guards) == 2


def test_random_numbers_are_never_equal():
    def drawn(x):
        return x * (2 if fxcore.assume(torch.rand(()) >= 0) and fxcore.assume(torch.rand(()) >= 0) else 1)

    assert len(fxcore.symbolic_trace(drawn, example_inputs=(X,)).graph.guards) == 2
