from __future__ import annotations

import random

import pytest
import torch
import torch.fx
import torch.fx.passes.dialect.common.cse_pass as theirs

import fxcore
from fxcore.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops, inplace_ops, rand_ops
from pytest_fxgraph import check_transform

aten = torch.ops.aten


def traced(function):
    return fxcore.symbolic_trace(function), torch.fx.symbolic_trace(function)


def repeated(x, y):
    a = aten.mul.Tensor(x, y)
    b = aten.mul.Tensor(x, y)
    c = aten.cat.default([a, b], 0)
    d = aten.cat.default([b, a], dim=0)
    e = aten.cat.default([a, a], 0)
    return a + b, c + d + e


@pytest.mark.parametrize("banned", [set(), {aten.mul}], ids=["none", "mul"])
def test_what_is_computed_twice_is_computed_once_as_in_torch(banned):
    ours, expected = traced(repeated)
    x, y = torch.randn(2), torch.randn(2)

    result = CSEPass(banned)(ours)

    assert str(result.graph_module.graph) == str(theirs.CSEPass(banned)(expected).graph_module.graph)
    assert result.modified == (not banned)
    torch.testing.assert_close(result.graph_module(x, y), repeated(x, y))


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_are_shortened_as_in_torch(seed):
    def build(fx):
        dice = random.Random(seed)
        graph = fx.Graph()
        values = [graph.placeholder("x"), graph.placeholder("y")]
        for _ in range(25):
            target = dice.choice([aten.add.Tensor, aten.mul.Tensor])
            values.append(graph.call_function(target, (dice.choice(values[:6]), dice.choice(values[-5:]))))
        graph.output(graph.call_function(aten.cat.default, (values[-3:],)))
        return fx.GraphModule({}, graph)

    ours, expected = CSEPass()(build(fxcore)), theirs.CSEPass()(build(torch.fx))

    assert ours.modified == expected.modified
    assert str(ours.graph_module.graph) == str(expected.graph_module.graph)


def test_a_graph_without_repetition_comes_back_itself():
    gm = fxcore.symbolic_trace(lambda x: torch.relu(x) + 1)

    result = CSEPass()(gm)

    assert result.graph_module is gm
    assert not result.modified


def different_numbers(x):
    return aten.div.Tensor(x, 0.0), aten.div.Tensor(x, -0.0), aten.add.Tensor(x, 1), aten.add.Tensor(x, 1.0)


def test_numbers_that_are_equal_but_not_the_same_stay_apart_where_torch_is_wrong():
    ours, expected = traced(different_numbers)
    x = torch.tensor([3])
    right = different_numbers(x)
    wrong = theirs.CSEPass()(expected).graph_module(x)
    assert not torch.equal(wrong[1], right[1])
    assert wrong[3].dtype is not right[3].dtype

    obtained = CSEPass()(ours).graph_module(x)

    for value, expected_value in zip(obtained, right, strict=True):
        assert torch.equal(value, expected_value)
        assert value.dtype is expected_value.dtype


def two_draws(x):
    return aten.rand_like.default(x) - aten.rand_like.default(x)


def test_two_draws_of_random_numbers_stay_two_where_torch_needs_to_be_told():
    ours, expected = traced(two_draws)
    assert not theirs.CSEPass()(expected).graph_module(torch.zeros(4)).any()

    result = CSEPass()(ours)

    assert not result.modified
    assert result.graph_module(torch.zeros(4)).any()


def test_nested_inputs_stay_nested_where_torch_fails():
    def function(pair):
        return torch.add(pair[0], pair[1]) * torch.add(pair[0], pair[1])

    example = (torch.ones(2), torch.ones(2))
    arguments = {"pair": (fxcore.PH, fxcore.PH)}
    gm = fxcore.symbolic_trace(function, concrete_args=arguments)

    shorter = CSEPass()(gm).graph_module

    assert torch.equal(shorter(example), function(example))
    assert len(shorter.graph.nodes) == len(gm.graph.nodes) - 1


def test_the_banned_operators_are_those_of_torch():
    assert get_CSE_banned_ops() == theirs.get_CSE_banned_ops()
    assert (inplace_ops, rand_ops) == (theirs.inplace_ops, theirs.rand_ops)


def writes_between(x):
    first = torch.exp(x)
    x.add_(1)
    return first - torch.exp(x)


def writes_to_a_view_between(x):
    first = torch.exp(x)
    x.view(-1).narrow(0, 0, 1).fill_(5.0)
    return first - torch.exp(x)


def writes_to_the_result(x):
    first, second = torch.exp(x), torch.exp(x)
    first.add_(1)
    return first - second


def returns_both(x):
    return torch.exp(x), torch.exp(x)


@pytest.mark.parametrize("function", [writes_between, writes_to_a_view_between, writes_to_the_result, returns_both])
def test_what_is_written_or_returned_stays_apart_where_torch_is_wrong(function):
    ours, expected = traced(function)
    wrong = theirs.CSEPass()(expected).graph_module(torch.arange(3.0))
    right = function(torch.arange(3.0))
    if function is returns_both:
        assert wrong[0].data_ptr() == wrong[1].data_ptr()
    else:
        assert not torch.equal(wrong, right)

    result = CSEPass()(ours)

    assert not result.modified
    check_transform(CSEPass(), function, (torch.arange(3.0),), idempotent=True, allow_vacuous=True)


def test_what_is_written_before_or_after_does_not_matter():
    def function(x):
        x.add_(1)
        y = torch.exp(x) * torch.exp(x)
        x.add_(1)
        return y

    result = check_transform(CSEPass(), function, (torch.arange(3.0),))

    result.assert_ops(removed={torch.exp: 1})


def test_functions_and_modules_that_nothing_is_known_of_stay():
    class Counting(torch.nn.Module):
        def forward(self, x):
            return x

    class Calls(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mine, self.lin, self.drop = Counting(), torch.nn.Linear(2, 2), torch.nn.Dropout()

        def forward(self, x):
            return [self.mine(x) + self.mine(x), self.lin(x) + self.lin(x), self.drop(x) + self.drop(x)]

    with_leaf = type("Tracer", (fxcore.Tracer,), {"is_leaf_module": lambda self, module, path: True})
    model = Calls()
    gm = fxcore.GraphModule(model, with_leaf().trace(model))

    shorter = CSEPass()(gm).graph_module

    counts = [len(shorter.graph.find_nodes(op="call_module", target=name)) for name in ("mine", "lin", "drop")]
    assert counts == [2, 1, 2]


def test_arguments_that_cannot_be_hashed_stay_apart():
    class Unhashable:
        __hash__ = None

    graph = fxcore.Graph()
    x, given = graph.placeholder("x"), Unhashable()
    graph.output(tuple(graph.call_function(aten.mul.Tensor, (x, given)) for _ in range(2)))

    assert not CSEPass()(fxcore.GraphModule({}, graph)).modified


def test_equal_slices_are_taken_once_and_others_stay():
    def sliced(x):
        return x[0:2] + x[0:2] + x[0:3:1][:2] + x[0:2:1]

    result = CSEPass()(fxcore.symbolic_trace(sliced))

    names = [node.name for node in result.graph_module.graph.nodes if node.name.startswith("getitem")]
    assert names == ["getitem", "getitem_2", "getitem_3", "getitem_4"]


def test_one_of_two_results_may_be_returned():
    def function(x):
        return torch.exp(x), torch.exp(x) + 1

    ours, expected = traced(function)

    assert str(CSEPass()(ours).graph_module.graph) == str(theirs.CSEPass()(expected).graph_module.graph)
    assert CSEPass()(ours).modified
