"""A graph is compared with its model on the example, on other values, and on other sizes."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

import fxcore
from fxcore.errors import GuardError, TraceError, VerificationError
from fxcore.guided.trace_verification import (
    FreeSizes,
    _differences,
    _other_sizes,
    _other_values,
    _resized,
    verify_trace,
)


def test_the_sizes_that_stayed_free_are_told():
    graph_module = fxcore.symbolic_trace(
        lambda x, y: x @ y if x.shape[0] % 2 == 0 else x,
        example_inputs=(torch.rand(2, 3), torch.rand(3, 5)),
        verify=True,
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"0": (0, 1), "1": (0, 1)}


def test_a_size_that_a_guard_fixes_is_told_with_the_guard():
    graph_module = fxcore.symbolic_trace(
        lambda x: sum(x[i] for i in range(x.shape[0])), example_inputs=torch.rand(2, 3), verify=True
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"0": (1,)}
    assert found.refused["0[0]"].startswith("x.shape[0] == 2: it is 3")


def test_a_value_that_was_computed_while_tracing_is_found():
    class Hidden(nn.Module):
        def forward(self, x):
            return x * _unseen_size(x)

    with pytest.raises(VerificationError) as caught:
        fxcore.symbolic_trace(Hidden(), example_inputs=torch.rand(2, 3), verify=True)

    message = str(caught.value)
    assert message.startswith(
        "the graph that was traced from Hidden does not do what the model does on inputs of another"
    )
    assert "output has other values in the graph than in eager" in message


def _unseen_size(x):
    return getattr(x, "example", x).shape[0]


def test_a_list_of_example_inputs_is_verified_like_a_tuple():
    class KeepsItsFirstInput(nn.Module):
        kept = None

        def forward(self, x, y):
            if self.kept is None:
                self.kept = x
            return self.kept + y

    with pytest.raises(TraceError, match="a second call of the model computes with state that the first call left"):
        fxcore.symbolic_trace(KeepsItsFirstInput(), example_inputs=[torch.rand(2), torch.rand(2)])
    found = fxcore.symbolic_trace(lambda x, y: x + y, example_inputs=[torch.rand(2), torch.rand(2)], verify=True)
    assert found.meta["free_sizes"].dimensions == {"0": (0,), "1": (0,)}


def test_the_model_is_left_as_it_was():
    model = nn.BatchNorm1d(3).train()

    fxcore.symbolic_trace(model, example_inputs=torch.rand(4, 3), verify=True)

    assert int(model.num_batches_tracked) == 0
    assert torch.equal(model.running_mean, torch.zeros(3))


def test_a_cache_of_another_call_is_found():
    class KeepsFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None

        def forward(self, x):
            if self.cache is None:
                self.cache = x * 2
            return x + self.cache

    with pytest.raises(
        VerificationError, match=r"on the second of two calls\. .*self\.cache.*: output has other values in the graph"
    ):
        fxcore.symbolic_trace(KeepsFirst(), example_inputs=torch.rand(3), verify=True)


@pytest.mark.parametrize("enforce_guards", [None, False])
def test_a_size_that_a_guard_refuses_is_told(enforce_guards):
    graph_module = fxcore.symbolic_trace(
        lambda x: x.relu() if x.relu().shape[0] == 3 else x,
        example_inputs=torch.rand(3, 4),
        verify=True,
        enforce_guards=enforce_guards,
    )

    found = graph_module.meta["free_sizes"]
    assert found.dimensions == {"x": (1,)} or list(found.dimensions.values()) == [(1,)]
    assert all("shape[0] == 3" in told for told in found.refused.values())


@dataclass
class Result:
    values: dict


@pytest.mark.parametrize(
    ("model", "graph", "words"),
    [
        (lambda x: [x, x.shape[0]], lambda x: [x, len(x)], None),
        (lambda x: [x, x.shape[0]], lambda x: [x, 3], r"0 with 4 in dimension 0.*output\[1\] is 4 in eager, 3 in the"),
        (lambda x: [x, 4], lambda x: [x, 3], r"output\[1\] is 4 in eager, 3 in the graph"),
        (lambda x: (x, math.nan), lambda x: (x, math.nan), None),
        (
            lambda x: {"a": x},
            lambda x: {"b": x},
            r"output has the parts \[\"\['a'\]\"\] in eager, .*'b'.* in the graph",
        ),
        (lambda x: {"a": {"b": x > 0}}, lambda x: {"a": {"b": x > 1}}, r"output\['a'\]\['b'\] has other values in the"),
        (lambda x: Result({"a": x}), lambda x: Result({"a": x + 1}), r"output.values\['a'\] has other values in the"),
        (lambda x: (x, int), lambda x: (x, float), None),
        (lambda x: x.int(), lambda x: x.int() + 0, None),
        (lambda x: x.int(), lambda x: x.int() + 1, "output has other values in the graph than in eager"),
        (lambda x: x.to("meta"), lambda x: x.to("meta") + 1, None),
        (
            lambda x: x,
            lambda x: x.double(),
            r"output is torch.float32 of shape \[3\] in eager, torch.float64 of shape \[3\]",
        ),
        (
            lambda x: x,
            lambda x: x[None],
            r"output is torch.float32 of shape \[3\] in eager, torch.float32 of shape \[1, 3\]",
        ),
        (lambda x: x, lambda x: x.view(3, 3), "eager runs, and the graph raises RuntimeError: shape"),
    ],
)
def test_each_part_of_a_result_is_compared(model, graph, words):
    traced = fxcore.symbolic_trace(lambda x: x)
    traced.forward = graph
    if words is None:
        verify_trace(model, traced, torch.ones(3))
    else:
        with pytest.raises(VerificationError, match=words):
            verify_trace(model, traced, torch.ones(3))


def test_an_example_that_eager_or_the_guards_refuse_raises_their_error():
    def unrolled(x):
        return sum(x[index] for index in range(x.shape[0]))

    traced = fxcore.symbolic_trace(unrolled, example_inputs=torch.ones(3))

    with pytest.raises(IndexError, match="tuple index out of range"):
        verify_trace(unrolled, traced, torch.ones(()))
    with pytest.raises(GuardError, match="does not hold for these inputs"):
        verify_trace(unrolled, traced, torch.ones(2))


def test_a_graph_without_a_free_size_says_so():
    assert str(FreeSizes({}, {})) == "no size of an input is free"


@dataclass
class Output:
    value: object


ONES, NAN, INF = torch.ones(2), torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.inf])


@pytest.mark.parametrize(
    ("expected", "obtained", "told"),
    [
        (ONES, torch.ones(2), None),
        (ONES, ONES + 1e-5, None),
        (ONES, ONES + 1e-3, "output has other values in the graph than in eager"),
        (ONES * 1000, ONES * 1000 + 0.05, None),
        (ONES.half(), ONES.half() + 5e-3, None),
        (ONES.bfloat16(), ONES.bfloat16() + 2e-2, None),
        (ONES * 1j, ONES * 1j, None),
        (ONES * 1j, ONES * 2j, "output has other values in the graph than in eager"),
        (NAN, NAN.clone(), None),
        (NAN, ONES, "output has other values in the graph than in eager"),
        (INF, INF.clone(), None),
        (INF, -INF, "output has other values in the graph than in eager"),
        (torch.tensor([1, 2]), torch.tensor([1, 2]), None),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "output has other values in the graph than in eager"),
        (torch.ones(0), torch.ones(0), None),
        (torch.ones(2, device="meta"), torch.zeros(2, device="meta"), None),
        (ONES, ONES.double(), "output is torch.float32 of shape [2] in eager, torch.float64 of shape [2] in the graph"),
        (ONES, torch.ones(3), "output is torch.float32 of shape [2] in eager, torch.float32 of shape [3] in the graph"),
        (3, 3, None),
        (3, 4, "output is 3 in eager, 4 in the graph"),
        (True, False, "output is True in eager, False in the graph"),
        ("a", "b", "output is 'a' in eager, 'b' in the graph"),
        (math.nan, math.nan, None),
        (math.nan, 1.0, "output is nan in eager, 1.0 in the graph"),
        (None, 3, None),
        (ONES, None, None),
        ([1], None, None),
        (None, [1], None),
        (torch.tensor([math.nan]), torch.tensor([math.nan]), None),
        ((1, 2), [1, 2], None),
        ([1, [2, 3]], [1, [2, 4]], "output[1][1] is 3 in eager, 4 in the graph"),
        ([1, 2], [1], "output has the parts ['[0]', '[1]'] in eager, ['[0]'] in the graph"),
        ({"a": 1}, {"a": 2}, "output['a'] is 1 in eager, 2 in the graph"),
        ({"a": 1}, {"b": 1}, "output has the parts [\"['a']\"] in eager, [\"['b']\"] in the graph"),
        (Output([1]), Output([2]), "output.value[0] is 1 in eager, 2 in the graph"),
        (Output(1), Output(1), None),
        (nn.ReLU(), nn.Tanh(), None),
        (Output, int, None),
    ],
)
def test_the_first_difference_of_two_results_is_told(expected, obtained, told):
    assert next(_differences(expected, obtained, "output"), None) == told


def test_sizes_are_changed_together_and_then_alone():
    inputs = ((torch.ones(2, 3), torch.ones(3), torch.ones(0, 5), 7), {})

    assert list(_other_sizes(inputs)) == [
        {("0", 0): 3},
        {("0", 0): 4},
        {("0", 1): 4, ("1", 0): 4},
        {("0", 1): 6, ("1", 0): 6},
        {("0", 1): 4},
        {("1", 0): 4},
    ]


def test_four_dimensions_of_one_size_are_changed_alone():
    inputs = (([torch.ones(2)], *[torch.ones(2) for _ in range(4)]), {"more": torch.ones(2)})

    together = {(path, 0) for path in ("[0][0]", "1", "2", "3", "4", "more")}
    *both, first, second, third, fourth = _other_sizes(inputs)
    assert both == [dict.fromkeys(together, 3), dict.fromkeys(together, 4)]
    assert len({place for each in (first, second, third, fourth) for place in each}) == 4


def test_three_of_the_changed_sizes_are_told():
    traced = fxcore.symbolic_trace(lambda a, b, c, d: a)
    traced.forward = lambda a, b, c, d: a[:2]

    with pytest.raises(
        VerificationError,
        match=r"another size \(0 with 3 in dimension 0, 1 with 3 in dimension 0, 2 with 3 in dimension 0\)\. ",
    ):
        verify_trace(lambda a, b, c, d: a, traced, [torch.ones(2) for _ in range(4)])


class WritesItsParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            self.weight.add_(1)
        return x * self.weight


def test_a_parameter_that_the_model_writes_is_the_same_before_each_run():
    model = WritesItsParameter()

    traced = fxcore.symbolic_trace(model, example_inputs=torch.ones(3), verify=True)

    assert model.weight.tolist() == [1, 1, 1]
    assert traced(torch.ones(3)).tolist() == [2, 2, 2]


class Counts(nn.Module):
    count = 0

    def forward(self, x):
        self.count += 1
        return x * 2


@pytest.mark.parametrize(
    ("failing", "words"), [(1, "on the first call"), (2, "on the second of two calls"), (3, "on the third call")]
)
def test_the_call_in_that_a_graph_fails_is_told(failing, words):
    traced = fxcore.symbolic_trace(Counts(), example_inputs=torch.ones(3))
    calls = []

    def fails(x):
        calls.append(x)
        if len(calls) > 2 and len(calls) - 2 == failing:
            raise RuntimeError("no memory")
        return x * 2

    traced.forward = fails
    with pytest.raises(VerificationError, match=f"{words}.*eager runs, and the graph raises RuntimeError: no memory"):
        verify_trace(Counts(), traced, torch.ones(3))


def test_inputs_of_other_sizes_hold_the_values_of_the_example():
    x = torch.arange(1.0, 7).reshape(2, 3).requires_grad_()
    meta, empty = torch.ones(2, device="meta"), torch.ones(0)

    (same, *others), _ = _resized(((x, meta, empty, 5), {}), {})
    (larger, *_), _ = _resized(((x,), {}), {("0", 0): 40})

    assert others == [meta, empty, 5]
    assert sorted(same.flatten().tolist()) == [1, 2, 3, 4, 5, 6]
    assert not torch.equal(same, x)
    assert (larger.shape, set(larger.flatten().tolist())) == ((40, 3), {1, 2, 3, 4, 5, 6})
    assert same.requires_grad
    assert larger.requires_grad


def test_other_values_are_half_as_large_and_whole_numbers_stay():
    numbers, meta = torch.tensor([1, 2]), torch.ones(2, device="meta")

    (halved, whole, kept, number), _ = _other_values(((torch.tensor([2.0, 4.0]), numbers, meta, 5), {}))

    assert sorted(halved.tolist()) == [1.0, 2.0]
    assert sorted(whole.tolist()) == [1, 2]
    assert kept is meta
    assert number == 5


def test_eager_runs_the_operators_of_a_verified_model_without_dynamo():
    def counters():
        return getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})

    def doubled(x):
        return while_loop(lambda n, y: n < 2, lambda n, y: (n + 1, y * 2), (torch.tensor(0), x))[1]

    counters().clear()
    fxcore.symbolic_trace(doubled, example_inputs=torch.ones(3), verify=True)
    assert not counters()
