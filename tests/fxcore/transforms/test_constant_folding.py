"""What is the same in every run is computed once; what somebody may write to, or what is drawn, is not."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import fxcore
from fxcore.passes.dialect.common.cse_pass import CSEPass
from fxcore.transforms.constant_folding import FoldConstants
from pytest_fxgraph import check_transform


class Net(nn.Module):
    """Values of buffers, numbers and a parameter, combined in one of several ways."""

    def __init__(self, combine):
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))
        self.register_buffer("other", torch.ones(4))
        self.weight = nn.Parameter(torch.randn(4))
        self.norm = nn.BatchNorm1d(4)
        self.combine = combine

    def forward(self, x):
        return self.combine(self, x)


class ReadingTracer(fxcore.Tracer):
    """Records that buffers are read, instead of reading them."""

    proxy_buffer_attributes = True


def traced(combine):
    model = Net(combine).eval()
    return fxcore.GraphModule(model, ReadingTracer().trace(model))


FOLDED = {
    "buffers": lambda net, x: x * (net.table + 1).exp(),
    "a view of a result": lambda net, x: x + (net.table + 1).view(2, 2).reshape(4),
    "a number": lambda net, x: x * (net.table.numel() + 1),
    "a frozen parameter": lambda net, x: x * torch.sigmoid(net.weight),
    "a frozen layer": lambda net, x: x + net.norm(net.table[None].expand(2, 4)).sum(0),
}
LEFT = {
    "an input": lambda net, x: x * 2,
    "a parameter": lambda net, x: x * (net.weight + 1),
    "a view": lambda net, x: x + net.table.view(2, 2).t().reshape(4),
    "a draw": lambda net, x: x + torch.rand_like(net.table),
    "a buffer that is written": lambda net, x: x + (net.table.add_(1) * 2),
    "a buffer that a view writes": lambda net, x: x + (net.table.view(-1).mul_(2) + 1),
    "a result that is written": lambda net, x: (net.table + 1).add_(x),
    "a result that is returned": lambda net, x: (x, net.table + 1),
    "a view that is returned": lambda net, x: (x, (net.table + 1).view(2, 2)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_constant_becomes_a_buffer(name):
    gm = traced(FOLDED[name])
    gm.requires_grad_(False)

    result = check_transform(FoldConstants(), gm, (torch.randn(4),))

    assert len([node for node in result.after.graph.nodes if node.op.startswith("call_")]) == 1
    assert all(key.startswith("folded_") for key in result.after.state_dict())
    assert name == "a number" or len(result.after.state_dict()) == 1


def graph_of(program):
    """Record a program on a graph whose inputs `x` and `y` come with two values that are made in it."""
    graph = fxcore.Graph()
    made = [graph.placeholder("x"), graph.placeholder("y")]
    made += [graph.call_function(torch.ones, (4,)), graph.call_function(torch.arange, (4.0,))]
    result = program(*map(fxcore.Proxy, made))
    graph.output(fxcore.node.map_aggregate(result, lambda value: getattr(value, "node", value)))
    return fxcore.GraphModule({}, graph)


def test_what_is_made_of_numbers_becomes_a_buffer():
    gm = graph_of(lambda x, y, ones, numbers: x + (ones * 2 + numbers))

    result = check_transform(FoldConstants(), gm, (torch.randn(4), torch.randn(4)))

    assert list(result.after.state_dict()) == ["folded_add"]


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_constant_or_may_change_stays(name):
    gm = traced(LEFT[name])
    assert any(node.op == "get_attr" for node in gm.graph.nodes) == (name != "an input")

    result = FoldConstants()(gm)

    assert result.graph_module is gm
    assert not result.modified


def test_parameters_are_folded_if_asked_for_and_keep_nothing_of_the_model():
    model = Net(LEFT["a parameter"])
    gm = fxcore.symbolic_trace(model)

    folded = FoldConstants(parameters=True)(gm).graph_module

    x = torch.randn(4)
    torch.testing.assert_close(folded(x), model(x))
    before = folded(x)
    with torch.no_grad():
        model.weight.add_(1)
    assert torch.equal(folded(x), before)
    assert list(folded.state_dict()) == ["folded_add"]


def test_large_values_and_nodes_that_are_named_stay():
    gm = graph_of(lambda x, y, ones, numbers: x + ones.repeat(100)[:4] * 2 + numbers * 3)

    small = FoldConstants(max_bytes=15)(gm)
    named = FoldConstants(skip=lambda node: node.target is torch.ones)(gm).graph_module

    assert not small.modified
    assert list(named.state_dict()) == ["folded_mul_1"]


@pytest.mark.parametrize(("most", "is_folded"), [(None, True), (17, True), (16, True), (15, False), (0, False)])
def test_a_value_of_just_the_limit_is_folded(most, is_folded):
    gm = traced(lambda model, x: x + (model.table + model.other))

    result = FoldConstants(max_bytes=most)(gm)

    assert result.modified == is_folded
    assert ("its value takes 16 bytes" in str(result.report)) == (not is_folded)


def random_program(seed):
    """Return a function of four tensors that computes, takes views and writes, at random."""

    def program(*inputs):
        dice = random.Random(seed)
        values = list(inputs)
        for _ in range(12):
            value, other = dice.choice(values), dice.choice(values)
            step = dice.randrange(7)
            if step == 0:
                value.add_(other)
            elif step == 1:
                value.narrow(0, 1, 2).fill_(dice.choice([2.0, 3.0]))
            elif step == 2:
                values.append(value.view(2, 2).t().reshape(4))
            elif step == 3:
                values.append(value.view(4))
            else:
                values.append(dice.choice([torch.tanh, torch.sigmoid])(value) + dice.choice([other, 1.0]))
        return values[-1], values[dice.randrange(len(values))], values[dice.randrange(2, len(values))]

    return program


def storages(outputs):
    return [[a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for b in outputs] for a in outputs]


@pytest.mark.parametrize("transform", [FoldConstants(), CSEPass()], ids=["folding", "common subexpressions"])
@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in (0, 50)], ids=["first", "second"])
def test_random_programs_with_views_and_writes_compute_the_same_twice(transform, seeds):
    changed = 0
    for seed in seeds:
        program = random_program(seed)
        result = transform(graph_of(program))
        changed += result.modified
        for _ in range(2):  # what is kept between calls would show in the second
            inputs = torch.linspace(0, 1, 4), torch.linspace(1, 2, 4)
            ours = [value.clone() for value in inputs]
            expected, obtained = program(*inputs, torch.ones(4), torch.arange(4.0)), result.graph_module(*ours)
            for value, other in zip((*expected, *inputs), (*obtained, *ours), strict=True):
                torch.testing.assert_close(other, value, msg=lambda text, seed=seed: f"seed {seed}: {text}")
            assert storages((*obtained, *ours)) == storages((*expected, *inputs)), f"seed {seed}"
    assert changed > 5


@pytest.mark.parametrize(
    ("combine", "options", "reason"),
    [
        (
            lambda net, x: x + net.weight * 2,
            {},
            "weight: it is a parameter that wants a gradient; parameters=True folds",
        ),
        (lambda net, x: (x, net.table * 2), {}, "mul: it is returned, and callers may write to it"),
        (lambda net, x: x + net.table * 2, {"max_bytes": 4}, "mul: its value takes 16 bytes, and max_bytes is 4"),
        (lambda net, x: x + torch.rand_like(net.table), {}, "rand_like: it may give another value in the next run"),
        (lambda net, x: x + net.table.mul_(2), {}, "table: mul_ writes to its memory"),
        (lambda net, x: x + net.table * 2, {"skip": lambda node: node.name == "mul"}, "mul: it is skipped"),
    ],
    ids=["parameter", "returned", "large", "random", "written", "skipped"],
)
def test_a_value_that_stays_has_its_reason(combine, options, reason):
    result = FoldConstants(**options)(traced(combine))

    assert not result.modified
    assert str(result.report.left[0]).startswith(reason)


def test_an_attribute_that_is_no_tensor_stays_with_its_reason():
    graph = fxcore.Graph()
    graph.output(graph.call_function(torch.add, (graph.placeholder("x"), graph.get_attr("number"))))

    result = FoldConstants()(fxcore.GraphModule({"number": 3}, graph))

    assert [str(each) for each in result.report.left] == ["number: it is no tensor"]


def test_a_constant_that_is_no_tensor_and_no_number_stays_with_its_reason():
    gm = traced(lambda model, x: torch.index_put(x, torch.where(model.table > 1), model.other[0]))

    result = FoldConstants()(gm)

    assert not result.modified
    assert dict(result.report.left) == {"where": "its value is a tuple, which cannot be a plain buffer"}
