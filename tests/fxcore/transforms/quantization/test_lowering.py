"""Reference layers and sums between integers become torch's quantized ones; all others stay, with a reason."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxcore
from fxcore.transforms.quantization.layers import QUANTIZED, reference_of
from fxcore.transforms.quantization.lowering import LowerQuantized
from fxcore.transforms.quantization.observers import weight_observer

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated.*:UserWarning", "ignore:.*reduce_range.*:UserWarning")

X, Y = (torch.rand(2, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))


def quantized(x):
    return torch.quantize_per_tensor(x, 1 / 32, 64, torch.quint8)


def restored(x):
    return quantized(x).dequantize()


class Sum(nn.Module):
    """A sum of two restored values; `program` takes the module and both."""

    def __init__(self, program):
        super().__init__()
        self.program, self.relu, self.tanh = program, nn.ReLU(), nn.Tanh()

    def forward(self, x, y):
        return self.program(self, restored(x), restored(y))


def lowered(model, *example):
    """Lower a traced model; check that it computes the same, and return the report and the called operators."""
    # Only a trace with an example records `x += y` as a write.
    graph_module = fxcore.symbolic_trace(model, example_inputs=tuple(each.clone() for each in example))
    result = LowerQuantized()(graph_module)
    expected, obtained = graph_module(*(each.clone() for each in example)), result.graph_module(*example)
    assert (expected - obtained).abs().max() <= 1 / 16, "two steps of the result"
    return result.report, [node.target for node in result.graph_module.graph.nodes]


def adds_in_place(m, x, y):
    x += y
    return restored(x)


SUMS = {
    "add": (lambda m, x, y: restored(x + y), "add"),
    "torch.add": (lambda m, x, y: restored(torch.add(x, y)), "add"),
    "iadd": (adds_in_place, "iadd"),
    "torch.relu": (lambda m, x, y: restored(torch.relu(x + y)), "add relu"),
    "F.relu": (lambda m, x, y: restored(F.relu(x + y)), "add relu"),
    "method relu": (lambda m, x, y: restored((x + y).relu()), "add relu"),
    "module relu": (lambda m, x, y: restored(m.relu(x + y)), "add relu"),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_two_restored_values_is_one_call(name):
    program, replaced = SUMS[name]

    report, targets = lowered(Sum(program), X - 0.5, Y - 0.3)

    assert " ".join(report.quantized) == replaced
    assert (torch.ops.quantized.add_relu if "relu" in replaced else torch.ops.quantized.add) in targets
    assert {operator.add, operator.iadd, torch.add, torch.relu, F.relu, "relu"}.isdisjoint(targets)


def with_both_read(m, x, y):
    total = x + y
    return restored(total) + total


def with_relu_read(m, x, y):
    total = (x + y).relu()
    return restored(total) + total


def with_sum_read_before_relu(m, x, y):
    total = x + y
    return restored(total.relu()) + total


def adds_into_a_read_value(m, x, y):
    total = x
    total += y
    return restored(total) + x


def writes_before(m, x, y):
    x.mul_(2)
    return restored(x + y)


LEFT = {
    "a difference": lambda m, x, y: restored(x - y),
    "a number": lambda m, x, y: restored(x + 1),
    "a factor": lambda m, x, y: restored(torch.add(x, y, alpha=2)),
    "another value": lambda m, x, y: restored(x + y.tanh()),
    "another activation": lambda m, x, y: restored(m.tanh(x + y)),
    "another method": lambda m, x, y: restored((x + y).tanh()),
    "the value itself": lambda m, x, y: quantized(x).dequantize(),
    "a sum that is read": with_both_read,
    "a relu that is read": with_relu_read,
    "a sum that is read before the relu": with_sum_read_before_relu,
    "a sum into a value that is read": adds_into_a_read_value,
    "a value that is written before": writes_before,
}


@pytest.mark.parametrize("program", LEFT.values(), ids=LEFT)
def test_other_calls_stay_in_floating_point(program):
    report, targets = lowered(Sum(program), X, Y)

    assert report.quantized == ()
    assert {torch.ops.quantized.add, torch.ops.quantized.add_relu}.isdisjoint(targets)


class Layers(nn.Module):
    """Reference layers in a program; `program` takes the module and the input."""

    def __init__(self, program, layer=None):
        super().__init__()
        self.program = program
        torch.manual_seed(0)
        first = nn.Linear(4, 4) if layer is None else layer
        self.first = reference_of(first.eval(), weight_observer("per_tensor" if layer is not None else "per_channel"))
        self.plain = nn.Linear(4, 4)

    def forward(self, x):
        return self.program(self, x)


def test_a_layer_between_integers_computes_with_integers():
    model = Layers(lambda m, x: restored(m.first(restored(x)))).eval()
    graph_module = fxcore.symbolic_trace(model)

    result = LowerQuantized()(graph_module)

    made = result.graph_module.first
    assert result.report.quantized == ("first",)
    assert type(made) is QUANTIZED[type(model.first)]
    assert (made.scale, made.zero_point, made.training) == (1 / 32, 64, False)
    assert [node.op for node in result.graph_module.graph.nodes] == [
        *("placeholder", "call_function", "call_module", "call_method", "output")
    ]
    assert type(graph_module.first) is type(model.first), "the given module stays"


def called_twice(m, x):
    return restored(m.first(restored(m.first(restored(x)))))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (called_twice, "it is called several times"),
        (lambda m, x: restored(m.first(x)), "what it takes is not quantized"),
        (lambda m, x: restored(m.first(restored(x).tanh())), "what it takes is not quantized"),
        (lambda m, x: m.first(restored(x)), "what it gives is not quantized, or read before it is"),
        (lambda m, x: m.first(restored(x)).tanh(), "what it gives is not quantized, or read before it is"),
        (
            lambda m, x: (lambda y: restored(y) + y)(m.first(restored(x))),
            "what it gives is not quantized, or read before it is",
        ),
        (
            lambda m, x: (lambda y: restored(y) + restored(y))(m.first(restored(x))),
            "what it gives is not quantized, or read before it is",
        ),
    ],
)
def test_a_layer_that_is_not_between_integers_stays_with_its_reason(program, reason):
    report, _ = lowered(Layers(program).eval(), X)

    assert [str(each) for each in report.left] == [f"first: {reason}"]
    assert report.quantized == ()


def test_a_layer_that_a_guard_calls_stays_so_that_the_guard_can_be_computed():
    def rows_or_sum(m, x):
        y = m.first(restored(x))
        return restored(y) if len(y.chunk(2, dim=-1)) == 2 else y.sum()

    model = Layers(rows_or_sum).eval()
    guarded = fxcore.symbolic_trace(model, example_inputs=(X,))
    unguarded = fxcore.symbolic_trace(model, example_inputs=(X,), enforce_guards=False)

    result = LowerQuantized()(guarded)

    assert [str(each) for each in result.report.left] == [
        "first: a guard of the graph calls it; a graph that is traced with enforce_guards=False checks none"
    ]
    torch.testing.assert_close(result.graph_module(X), guarded(X))
    assert LowerQuantized()(unguarded).report.quantized == ("first",)


def test_a_layer_in_floating_point_is_none_of_the_pass_s_business():
    report, _ = lowered(Layers(lambda m, x: restored(m.plain(restored(x)))).eval(), X)

    assert (report.quantized, report.left) == ((), ())


def test_each_layer_is_judged_on_its_own():
    report, _ = lowered(
        nn.Sequential(
            Layers(lambda m, x: m.first(x)), Layers(lambda m, x: restored(m.first(restored(x)))), nn.Tanh()
        ).eval(),
        X,
    )

    assert report.quantized == ("1.first",)
    assert [str(each) for each in report.left] == ["0.first: what it takes is not quantized"]
