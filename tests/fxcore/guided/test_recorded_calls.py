"""Calls without a proxy, and calls that torch would not let be recorded: draws, checks, arrays of numpy."""

from __future__ import annotations

import inspect
import random

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointFunction

import fxcore
from fxcore.errors import TraceError


@pytest.mark.parametrize(
    "function",
    [lambda x: x * random.uniform(1, 2), lambda x: x + torch.tensor(numpy.random.rand(3))],
    ids=["python", "numpy"],
)
def test_numbers_that_python_or_numpy_draws_are_drawn_anew_in_each_run(function):
    of_python, of_numpy = random.getstate(), numpy.random.get_state()[1].copy()

    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.ones(3), verify=True)

    assert random.getstate() == of_python
    assert (numpy.random.get_state()[1] == of_numpy).all()
    obtained = graph_module(torch.ones(3))
    assert not torch.equal(obtained, graph_module(torch.ones(3)))
    random.setstate(of_python)
    numpy.random.seed(3)
    expected = function(torch.ones(3))
    random.setstate(of_python)
    numpy.random.seed(3)
    assert torch.equal(graph_module(torch.ones(3)), expected)


def test_a_branch_on_a_drawn_number_is_refused():
    def skipping(x):
        return x if random.random() < 0.5 else x * 2

    with pytest.raises(TraceError, match="or from a random number") as caught:
        fxcore.symbolic_trace(skipping, example_inputs=torch.ones(3))

    assert "random.random() < 0.5" in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * random.sample(range(100), 2)[0],
        lambda x: x * random.choices([1, 2, 3, 4], k=2)[1] + random.getrandbits(8),
        lambda x: x[torch.from_numpy(numpy.random.permutation(3))],
    ],
    ids=["sample", "choices", "permutation"],
)
def test_several_drawn_numbers_are_drawn_anew_in_each_run(function):
    graph_module = fxcore.symbolic_trace(function, example_inputs=torch.rand(3))

    x = torch.rand(3)
    for seed in range(5):
        random.seed(seed)
        numpy.random.seed(seed)
        expected = function(x), random.random(), numpy.random.rand()
        random.seed(seed)
        numpy.random.seed(seed)
        obtained = graph_module(x), random.random(), numpy.random.rand()
        assert torch.equal(obtained[0], expected[0])
        assert obtained[1:] == expected[1:]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: (random.shuffle(order := [1, 2, 3]), x * order[0])[1], "random.shuffle"),
        (lambda x: (numpy.random.shuffle(order := numpy.arange(3)), x[order])[1], "numpy.random.shuffle"),
        (lambda x: x * numpy.random.default_rng().random(), "numpy.random.default_rng"),
    ],
    ids=["list", "array", "generator"],
)
def test_a_draw_that_no_node_repeats_is_refused(function, name):
    of_python = random.getstate()

    with pytest.raises(TraceError, match=rf"^{name}\(\) cannot be recorded: each call of the model draws anew.* at .*"):
        fxcore.symbolic_trace(function, example_inputs=torch.rand(3))

    assert random.getstate() == of_python


def test_a_generator_of_numpy_with_a_seed_draws_the_same_in_each_run():
    def shifted(x):
        return x + numpy.random.default_rng(3).random()

    graph_module = fxcore.symbolic_trace(shifted, example_inputs=torch.rand(3))

    assert torch.equal(graph_module(torch.ones(3)), shifted(torch.ones(3)))


def test_a_layer_that_is_drawn_is_refused():
    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

        def forward(self, x):
            return random.choice([*self.layers])(x)

    with pytest.raises(TraceError, match=r"was chosen at .*: return random.choice\(\[\*self.layers\]\)\(x\)"):
        fxcore.symbolic_trace(Either(), example_inputs=torch.ones(2, 3))


def test_a_check_of_contents_by_torch_stays_one():
    def checked(x):
        torch._check_tensor_all(x > 0, lambda: f"{x} is not positive")
        torch._check(x.dim() == 1)
        return x * 2

    graph_module = fxcore.symbolic_trace(checked, example_inputs=torch.ones(3))

    assert torch.equal(graph_module(torch.ones(4)), checked(torch.ones(4)))
    with pytest.raises(AssertionError, match="Check failed"):
        graph_module(-torch.ones(3))


def test_arrays_of_numpy_are_constants():
    offsets = numpy.array([0, 5, 11])

    graph_module = fxcore.symbolic_trace(
        lambda x: x + x.new_tensor(offsets) * x.new_tensor(offsets[1]), example_inputs=torch.ones(3)
    )

    x = torch.rand(2, 3)
    assert torch.equal(graph_module(x), x + torch.tensor([0, 25, 55]))


def test_a_checkpoint_of_two_inputs_is_recorded_as_its_operations():
    def checkpointed(x, y):
        return CheckpointFunction.apply(lambda a, b: a.sin() * b, False, x, y)

    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 2.0)
    graph_module = fxcore.symbolic_trace(checkpointed, example_inputs=(x, y))

    assert [node.name for node in graph_module.graph.nodes] == ["x", "y", "sin", "mul", "output"]
    assert torch.equal(graph_module(x, y), x.sin() * y)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_fork_of_the_generator_is_recorded_where_it_is_enabled(is_enabled):
    def forked(x):
        with torch.random.fork_rng(enabled=is_enabled):
            y = x + torch.rand(3)
        return y * torch.rand(3)

    graph_module = fxcore.symbolic_trace(forked, example_inputs=torch.ones(3))

    called = {node.target for node in graph_module.graph.nodes if node.op == "call_function"}
    assert (torch.set_rng_state in called) == is_enabled
    torch.manual_seed(0)
    expected = forked(torch.ones(3))
    torch.manual_seed(0)
    assert torch.equal(graph_module(torch.ones(3)), expected)


def test_facts_of_a_dtype_are_read_with_and_without_a_traced_value():
    def shifted(x):
        return x + torch.finfo(torch.float16).eps + torch.finfo(x.dtype).eps + torch.iinfo(torch.int8).max

    graph_module = fxcore.symbolic_trace(shifted, example_inputs=torch.ones(3))

    called = [node for node in graph_module.graph.nodes if node.target is torch.finfo]
    assert len(called) == 1
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(3, dtype=dtype)
        assert torch.equal(graph_module(x), shifted(x))


OWN = torch.Generator()


def test_draws_of_a_generator_that_the_code_seeds_are_the_same_in_each_run():
    def drawn(x):
        OWN.manual_seed(3)
        return x + torch.normal(0.0, 2.0, (3,), generator=OWN) + torch.empty(3).uniform_(0.5, generator=OWN)

    graph_module = fxcore.symbolic_trace(drawn, example_inputs=torch.ones(3))

    assert torch.equal(graph_module(torch.ones(3)), drawn(torch.ones(3)))
    assert torch.equal(graph_module(torch.ones(3) * 2), drawn(torch.ones(3) * 2))


def test_a_method_that_draws_is_recorded_and_another_computes_a_constant():
    graph = fxcore.symbolic_trace(
        lambda x: x + torch.zeros(3, 1).t_() * torch.empty(3).uniform_(), example_inputs=torch.ones(3)
    ).graph

    assert [node.target for node in graph.nodes if node.op == "call_method"] == ["clone", "uniform_"]


# Such an `apply`, of torch 2.14, runs on examples where an argument hides one, and the trace is refused.
IS_IN_C = not isinstance(inspect.getattr_static(torch.autograd.Function, "apply"), classmethod)


class Holder:
    def __init__(self, scale):
        self.scale = scale


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, holder):
        return x * holder.scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Doubled(Scaled):
    @staticmethod
    def forward(ctx, x, holder):
        ctx.save_for_backward(x)
        return x * holder.scale

    setup_context = torch.autograd.Function.setup_context


@pytest.mark.parametrize("function", [Scaled, Doubled])
def test_a_function_with_its_own_gradients_is_traced_where_an_argument_is_no_argument_of_a_node(function):
    def scaled(x):
        return function.apply(x, Holder(2.0)) + function.apply(x, Holder(3.0 if IS_IN_C else x.sum()))

    graph_module = fxcore.symbolic_trace(scaled, example_inputs=torch.ones(3))

    x = torch.arange(3.0)
    assert torch.equal(graph_module(x), scaled(x))


@pytest.mark.parametrize(
    ("function", "targets"),
    [
        (lambda x: torch.zeros(4).uniform_() + x, ["clone", "uniform_"]),
        (lambda x: torch.zeros(4).add_(1) + x, []),
    ],
)
def test_a_method_that_draws_is_recorded_without_a_proxy_and_another_is_not(function, targets):
    graph = fxcore.symbolic_trace(function, example_inputs=torch.ones(4)).graph

    assert [node.target for node in graph.nodes if node.op == "call_method"] == targets


class DrawsTwice(nn.Module):
    """Draw the same mask twice, as reversible layers do."""

    def forward(self, x):
        state = torch.get_rng_state()
        first = F.dropout(x, 0.5)
        torch.random.set_rng_state(state)
        return first, F.dropout(x, 0.5)


def test_the_state_of_the_generator_is_read_and_set_in_each_run():
    graph_module = fxcore.symbolic_trace(DrawsTwice(), example_inputs=torch.ones(20))

    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = DrawsTwice()(torch.ones(20))
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        obtained = graph_module(torch.ones(20))

        assert expected[0].equal(expected[1])
        torch.testing.assert_close(obtained, expected)
        assert after.equal(torch.get_rng_state())


def test_a_new_seed_is_drawn_in_each_run():
    graph_module = fxcore.symbolic_trace(lambda x: (torch.seed(), x + torch.rand(3)), example_inputs=torch.ones(3))

    with torch.random.fork_rng(devices=[]):
        (first, _), (second, drawn) = graph_module(torch.ones(3)), graph_module(torch.ones(3))

        assert first != second
        torch.manual_seed(second)
        assert drawn.equal(torch.ones(3) + torch.rand(3))
