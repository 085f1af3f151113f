"""What a graph keeps between calls shows in a second call, wherever it is kept; where nothing is, there is one call."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

import fxcore
from fixtures.transform_models import Arithmetic, ConvBnRelu, Mlp, Residual, image, matrix
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.kept_state import may_keep_state
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.errors import MismatchError
from pytest_fxgraph.functions import assert_equivalent
from pytest_fxgraph.transform.fixture import FxTransform

CALLS = []
COUNT = 0
FACTORS = (1.0, 2.0)


def calling(function):
    """Make a transform that calls a function in the place of relu."""

    def transform(gm):
        for node in gm.graph.nodes:
            if node.target is torch.relu:
                node.target = function
        gm.recompile()
        return gm

    return transform


def kept_in_a_closure():
    cache = {}

    def relu(x):
        if "value" not in cache:
            cache["value"] = torch.relu(x)
        return cache["value"] * 1

    return relu


def counted_in_a_closure():
    count = 0

    def relu(x):
        nonlocal count
        count += 1
        return torch.relu(x) * count

    return relu


def counted_in_a_global():
    def relu(x):
        global COUNT
        COUNT += 1
        return torch.relu(x) if COUNT < 2 else x

    global COUNT
    COUNT = 0
    return relu


def counted_in_a_list_of_the_test():
    def relu(x):
        CALLS.append(1)
        return torch.relu(x) * len(CALLS)

    CALLS.clear()
    return relu


def counted_in_a_default():
    def relu(x, calls=[]):  # noqa: B006
        calls.append(1)
        return torch.relu(x) * len(calls)

    return relu


def counted_in_an_attribute_of_the_function():
    def relu(x):
        relu.calls = getattr(relu, "calls", 0) + 1
        return torch.relu(x) * relu.calls

    return relu


class Counter:
    """Counts its calls."""

    __name__ = "Counter"

    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return torch.relu(x) * self.calls

    def method(self, x):
        return self(x)


class KeepsTheFirst(nn.Module):
    """Gives its first result for ever, though the one that is asked for is another."""

    def __init__(self):
        super().__init__()
        self.kept = {"results": []}

    def forward(self, x):
        if not self.kept["results"]:
            self.kept["results"].append(torch.relu(x).numpy().copy())
        return torch.from_numpy(self.kept["results"][0].copy())


def relu_kept_by_a_module(gm):
    gm.relu = KeepsTheFirst()
    for node in list(gm.graph.nodes):
        if node.target is torch.relu:
            with gm.graph.inserting_before(node):
                node.replace_all_uses_with(gm.graph.call_module("relu", node.args))
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


@pytest.mark.parametrize(
    "make",
    [
        kept_in_a_closure,
        counted_in_a_closure,
        counted_in_a_global,
        counted_in_a_list_of_the_test,
        counted_in_a_default,
        counted_in_an_attribute_of_the_function,
        Counter,
        lambda: Counter().method,
    ],
)
def test_what_a_function_keeps_shows_in_a_second_call(make):
    with pytest.raises(MismatchError, match="output of a second call has other values"):
        FxTransform()(calling(make()), Residual(), matrix(4, 4))


def test_what_a_module_keeps_in_a_list_shows_in_a_second_call():
    with torch.no_grad(), pytest.raises(MismatchError, match="output of a second call has other values"):
        FxTransform()(relu_kept_by_a_module, Residual(), matrix(4, 4))


class Recorded(nn.Module):
    """Notes its calls."""

    def __init__(self, calls):
        super().__init__()
        object.__setattr__(self, "note", calls.append)

    def forward(self, x):
        self.note(tuple(x.flatten()[:2].tolist()))
        return x * 2


def test_where_nothing_can_be_kept_there_is_one_call():
    calls: list[Any] = []

    FxEquivalence()(Recorded(calls), matrix(), graph=fxcore.symbolic_trace(lambda x: x + x))

    assert len(calls) == 1


def test_the_second_call_has_other_values_of_the_same_range():
    calls: list[Any] = []

    FxEquivalence()(Recorded(calls), matrix(), graph=calling_double(counted_once()))

    assert len(calls) == 2
    assert calls[0] != calls[1]


def counted_once():
    calls = []

    def double(x):
        calls.append(x.shape)
        return x + x

    return double


def calling_double(function):
    graph_module = fxcore.symbolic_trace(lambda x: x + x)
    next(node for node in graph_module.graph.nodes if node.op == "call_function").target = function
    for node in graph_module.graph.nodes:
        if node.target is function:
            node.args = node.args[:1]
    graph_module.recompile()
    return graph_module


def test_inputs_that_do_not_suit_a_second_call_are_given_again_as_they_were():
    def eager(x):
        if x[0] != 0:
            raise ValueError("offsets begin with 0")
        return x * 2

    count = counted_in_a_closure()

    assert_equivalent(eager, lambda x: (CALLS, x * 2)[1], torch.arange(5))
    with pytest.raises(MismatchError, match="output of a second call has other values"):
        assert_equivalent(eager, lambda x: x * 2 + count(x) - torch.relu(x), torch.arange(5))


def test_rounding_that_the_first_call_allows_is_allowed_in_the_second():
    class Sums(nn.Module):
        def __init__(self, reverse):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.weight = nn.Parameter(1e4 * torch.randn(64, 512, generator=torch.Generator().manual_seed(0)))
            self.reverse = reverse

        def forward(self, x):
            self.calls.add_(1)
            linear = nn.functional.linear
            return linear(x.flip(1), self.weight.flip(1)) if self.reverse else linear(x, self.weight)

    x = torch.randn(16, 512, generator=torch.Generator().manual_seed(1))
    for seed in range(5):
        assert_equivalent(Sums(False), Sums(True), x, seed=seed)


@pytest.mark.parametrize(("model", "inputs"), [(Mlp, matrix()), (ConvBnRelu, image()), (Residual, matrix(4, 4))])
def test_torchs_own_functions_and_layers_keep_nothing(model, inputs):
    graph_module = fxcore.symbolic_trace(model())

    assert not may_keep_state(graph_module, graph_module)


def scaled(x):
    return x * FACTORS[1]


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


class Remembering(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        CALLS.append(x)
        return x * 2


def calls_a_function_of_its_own(x):
    factor = 2
    return (lambda: x * factor)()


def with_a_keyword_list(x, *, calls=[]):  # noqa: B006  the point of the test
    return x * len(calls)


def halves(x):
    return halves(x[: len(x) // 2]) if len(x) > 1 else Kind(x)


class Kind:
    """Is made by a function."""

    def __init__(self, x):
        self.x = x


class WithoutState:
    """Has methods of the class."""

    @classmethod
    def of_class(cls, x):
        return x * 2

    @staticmethod
    def of_nobody(x):
        return x * 2


class NotingClass(WithoutState):
    """Has a method that the call does not show."""

    @staticmethod
    def noted(x):
        CALLS.append(x)


def unfilled():
    """Return a function that refers to a variable without a value."""

    def double(x):
        return x * missing  # noqa: F821  the point of the test

    missing = 2
    del missing
    return double


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (scaled, False),
        (halves, False),
        (unfilled(), False),
        (lambda x: scaled(x), False),
        (torch.relu, False),
        (torch.ops.aten.relu.default, False),
        (Doubling.apply, False),
        (Remembering.apply, True),
        (lambda x: CALLS, True),
        (lambda x: [counted_in_a_closure() for _ in x], True),
        (functools.partial(torch.add, 1), False),
        (functools.partial(torch.add, alpha=1), False),
        (functools.partial(torch.add, alpha=[]), True),
        (functools.partial(torch.add, (1, (object(), "a"))), False),
        (functools.partial(torch.add, (1, [])), True),
        (calls_a_function_of_its_own, False),
        (with_a_keyword_list, True),
        (Counter.__call__, True),
        (WithoutState.of_class, False),
        (WithoutState.of_nobody, False),
        (NotingClass.of_class, True),
        (functools.partial(kept_in_a_closure()), True),
    ],
)
def test_a_function_of_the_users_keeps_state_if_it_refers_to_what_can_be_changed(function, expected):
    assert may_keep_state(None, function) is expected


def test_a_subclass_of_the_interpreter_is_looked_through():
    class Plain(fxcore.Interpreter):
        def run_node(self, n):
            return super().run_node(n)

    class Noting(fxcore.Interpreter):
        def run_node(self, n):
            CALLS.append(n)
            return super().run_node(n)

    graph_module = fxcore.symbolic_trace(Arithmetic())

    assert not may_keep_state(graph_module, InterpreterCall(Plain, graph_module))
    assert may_keep_state(graph_module, InterpreterCall(Noting, graph_module))


def test_a_variable_that_is_not_assigned_yet_keeps_nothing():
    def outer():
        def call(x: torch.Tensor) -> torch.Tensor:
            return later(x)

        is_kept = may_keep_state(call, call)
        later = torch.relu
        return is_kept, may_keep_state(call, call), later

    assert outer()[:2] == (False, False)


class Noting(nn.Module):
    def forward(self, x):
        CALLS.append(x)
        return x


class Plain(nn.Module):
    def forward(self, x):
        return x * 2


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (Plain(), False),
        (Noting(), True),
        (nn.Sequential(Plain(), Plain(), Noting()), True),
        (nn.Sequential(Plain(), nn.Linear(1, 1)), False),
        (calling_double(counted_once()), True),
        (fxcore.symbolic_trace(Plain()), False),
        (nn.Sequential(calling_double(counted_once())), True),
        (torch.jit.script(Plain()), False),
    ],
    ids=["plain", "noting", "parts", "plain parts", "graph", "plain graph", "graph in a part", "scripted"],
)
def test_modules_keep_state_if_a_forward_or_a_function_of_a_graph_does(root, expected):
    assert may_keep_state(root, root) is expected
