"""What torch.fx gets wrong without a word is right with an example, or a guard, or an error.

Each model is traced with one example, and then runs, eager and as a graph, on fresh inputs one after the other. What
the graph does not do is refused by `check_guards`, by the trace, or by `verify=True`.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fxcore
from fxcore.errors import GuardError, TraceError, VerificationError

SIZE = 3


class Model(nn.Module):
    """Has what the functions below use as `self`."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.layer = nn.Linear(SIZE, SIZE)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(SIZE))
        self.register_buffer("is_ready", torch.tensor(True))
        self.plain = torch.zeros(SIZE)
        self.cache, self.count, self.history = None, 0, []
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x):
        return self.function(self, x)


def checks_type_by_isinstance(self, x):
    return x * 2 if isinstance(x, torch.Tensor) else x


def checks_type_by_identity(self, x):
    return x * 2 if type(x) is torch.Tensor else x


def checks_type_of_size(self, x):
    return x * 2 if type(x.shape[0]) is int else x


def drops_a_constant(self, x):
    return x + F.dropout(torch.ones(SIZE), 0.5)


def follows_the_training_flag(self, x):
    return F.dropout(x, 0.5, self.training)


def calls_dropout(self, x):
    return self.drop(x)


def draws_random_numbers(self, x):
    return x + torch.randn(SIZE) * torch.rand(SIZE)


def draws_into_a_tensor(self, x):
    return x * torch.empty(SIZE).uniform_() + torch.empty(SIZE).bernoulli_(0.5)


def draws_from_a_seeded_generator(self, x):
    return x + torch.randn(SIZE, generator=torch.Generator().manual_seed(0))


def writes_items_of_a_constant(self, x):
    made = torch.zeros(SIZE)
    made[0] = x.sum()
    return made * 2


def adds_to_a_constant(self, x):
    made = torch.zeros(SIZE)
    made += x
    made.add_(1)
    return made.sum() + made


def writes_a_part_of_a_constant(self, x):
    made = torch.zeros(2, SIZE)
    row = made[1]
    made[0].add_(x)
    row.copy_(x * 2)
    return made.sum(0) + row


def writes_out_into_a_constant(self, x):
    made = torch.zeros(SIZE)
    torch.mul(x, 2, out=made)
    return made + 1


def fills_a_constant_by_constants(self, x):
    mask = torch.zeros(SIZE)
    mask[1] = 1
    return x * mask


def writes_a_plain_attribute(self, x):
    self.plain += x
    return self.plain * 2


def writes_a_buffer(self, x):
    self.mean.mul_(0.9).add_(x.detach(), alpha=0.1)
    return x - self.mean


def assigns_a_buffer(self, x):
    self.mean = self.mean * 0.9 + x * 0.1
    return x - self.mean


def assigns_a_cache(self, x):
    y = x if self.cache is None else x + self.cache
    self.cache = y
    return y


def counts_its_calls(self, x):
    self.count += 1
    return x * self.count


def collects_its_inputs(self, x):
    self.history.append(x)
    return x * len(self.history)


def assigns_what_nobody_reads(self, x):
    self.last = x
    return x + 1


def casts_automatically(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.layer(x)


def branches_on_a_buffer(self, x):
    return x * 2 if self.is_ready else x


def branches_on_a_size(self, x):
    return x * 2 if x.shape[0] > 2 else x


def branches_on_a_dtype(self, x):
    return x * 2 if x.dtype is torch.float32 else x


def branches_on_contents(self, x):
    return x * 2 if x.sum() > 0 else x


def branches_on_two_tensors(self, x):
    return x * 2 if torch.equal(x, torch.ones(SIZE)) else x


def raises_on_contents(self, x):
    if (x < -5).any():
        raise ValueError(f"too small: {x.min()}")
    return x * 2


def reads_a_number(self, x):
    return x * x.sum().item() + float(x.shape[0])


def makes_a_tensor_of_values(self, x):
    return x + torch.tensor(x.tolist())


def asks_for_a_size_after_a_write(self, x):
    y = x.clone()
    y[0] = 5
    return sum(y[index] for index in range(y.shape[0]))


def compares_sizes_in_python(self, x):
    return x * max(x.shape[0], 2) + sorted([x.shape[0], 2])[0]


def looks_sizes_up(self, x):
    return x * {SIZE: 5}.get(x.shape[0], 1) + (2 if x.shape[0] in {SIZE, 4} else 1)


def asks_for_gradients(self, x):
    return x * 2 if x.requires_grad else x


def asks_for_the_memory(self, x):
    return x * 2 if x.data_ptr() % 2 else x


RIGHT = (
    *(checks_type_by_isinstance, checks_type_by_identity, checks_type_of_size, drops_a_constant),
    *(follows_the_training_flag, calls_dropout, draws_random_numbers, draws_into_a_tensor),
    *(draws_from_a_seeded_generator, writes_items_of_a_constant, adds_to_a_constant, writes_a_part_of_a_constant),
    *(writes_out_into_a_constant, fills_a_constant_by_constants, writes_a_plain_attribute, writes_a_buffer),
    *(assigns_a_buffer, assigns_what_nobody_reads, casts_automatically, branches_on_a_buffer, raises_on_contents),
    *(reads_a_number, makes_a_tensor_of_values),
)


def results(call, inputs):
    torch.manual_seed(3)
    return [call(x.clone()) for x in inputs]


def fresh_inputs():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(SIZE, generator=generator) for _ in range(2)] + [torch.ones(SIZE)]


@pytest.mark.parametrize("is_training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("function", RIGHT)
def test_the_graph_does_what_the_model_does_on_fresh_inputs(function, is_training):
    model = Model(function).train(is_training)
    twin = copy.deepcopy(model)

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE))

    for x in fresh_inputs():
        graph_module.check_guards(x)
    torch.testing.assert_close(results(graph_module, fresh_inputs()), results(twin, fresh_inputs()))


GUARDED = {
    branches_on_a_size: torch.rand(2),
    branches_on_a_dtype: torch.ones(SIZE, dtype=torch.float64),
    asks_for_a_size_after_a_write: torch.rand(4),
    compares_sizes_in_python: torch.rand(1),
    looks_sizes_up: torch.rand(5),
    asks_for_gradients: torch.rand(SIZE, requires_grad=True),
}


@pytest.mark.parametrize("function", GUARDED)
def test_inputs_for_which_the_graph_does_not_hold_break_a_guard(function):
    model = Model(function)

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE))

    torch.testing.assert_close(results(graph_module, fresh_inputs()), results(model, fresh_inputs()))
    with pytest.raises(GuardError):
        graph_module.check_guards(GUARDED[function])


@pytest.mark.parametrize("function", [branches_on_contents, branches_on_two_tensors, asks_for_the_memory])
def test_what_contents_decide_is_refused(function):
    with pytest.raises(TraceError, match="It follows from the contents of a tensor"):
        fxcore.symbolic_trace(Model(function), example_inputs=torch.rand(SIZE))


@pytest.mark.parametrize(
    ("function", "attribute"),
    [(assigns_a_cache, "cache"), (counts_its_calls, "count"), (collects_its_inputs, "history")],
)
def test_a_model_that_remembers_its_calls_is_told_and_found_by_verifying(function, attribute):
    model = Model(function)

    with pytest.raises(
        TraceError, match=f"a second call of the model computes with state .*\nforward assigns self.{attribute}"
    ):
        fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE))
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE), verify=False)

    note = f"forward assigns self.{attribute}, which the graph does not"
    assert graph_module.graph.guards.notes == (note,)
    assert f"    # note: {note}\n" in graph_module.print_readable(print_output=False)
    assert copy.deepcopy(graph_module).graph.guards.notes == (note,)
    assert (model.cache, model.count, model.history) == (None, 0, [])
    with pytest.raises(VerificationError, match=rf"on the second of two calls\. .*{note}"):
        fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE), verify=True)


def test_what_is_assigned_and_not_read_is_told():
    graph_module = fxcore.symbolic_trace(Model(assigns_what_nobody_reads), example_inputs=torch.rand(SIZE), verify=True)

    assert graph_module.graph.guards.notes == ("forward assigns self.last, which the graph does not",)


def test_an_error_about_contents_is_an_assertion_of_the_graph():
    graph_module = fxcore.symbolic_trace(Model(raises_on_contents), example_inputs=torch.rand(SIZE))

    with pytest.raises(AssertionError, match=r"refused by the model: if \(x < -5\)\.any\(\):"):
        graph_module(torch.full((SIZE,), -9.0))


def test_a_forward_of_the_instance_is_the_one_that_is_traced():
    model = Model(checks_type_by_isinstance)
    model.forward = lambda x: x - 1

    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE))

    assert torch.equal(graph_module(torch.ones(SIZE)), torch.zeros(SIZE))


def test_gradients_stop_where_the_model_stops_them():
    def stopped(self, x):
        with torch.no_grad():
            y = self.layer(x)
        return y + x

    model = Model(stopped)
    graph_module = fxcore.symbolic_trace(model, example_inputs=torch.rand(SIZE))

    x = torch.rand(SIZE, requires_grad=True)
    graph_module(x).sum().backward()

    assert model.layer.weight.grad is None
    assert torch.equal(x.grad, torch.ones(SIZE))


def test_a_mode_that_makes_no_difference_is_no_node():
    def in_modes(self, x):
        with torch.autocast("cpu", enabled=False), torch.no_grad():
            positions = torch.arange(x.shape[0])
        return x + positions

    graph_module = fxcore.symbolic_trace(Model(in_modes), example_inputs=torch.rand(SIZE))

    assert "autocast" not in graph_module.code
    assert "grad" not in graph_module.code


def test_a_tensor_cannot_be_followed_where_a_mode_of_torch_is_on():
    def written(self, x):
        with torch.device("cpu"):
            made = torch.zeros(SIZE)
            made[0] = x.sum()
        return made

    with pytest.raises(TraceError, match=r"is written at .*inside a torch function mode .*\n.*x\.new_zeros"):
        fxcore.symbolic_trace(Model(written), example_inputs=torch.rand(SIZE))
