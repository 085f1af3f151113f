"""One call of a model or graph: its result, the calls after it, and the state that is put back."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.run import RunFailure, RunResult, RunSettings, run_model
from pytest_fxgraph.equivalence.state_changes import StateNames

X = torch.linspace(-1, 1, 4)


def run(model, *inputs, grads=False, guard=None, **options):
    """Run a model once, in a guard of its own if none is given."""
    guard = guard or Snapshot(model)
    guard.include_code(model)
    settings = RunSettings(Arguments(inputs or (X,), {}), StateNames(guard.state_of(model)), guard, 3, grads, **options)
    return run_model(model, model, settings)


class Writes(nn.Module):
    """Adds to its buffer through `.data`, which torch's version counter misses, and fails then if asked."""

    def __init__(self, *, fails=False):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.fails = fails

    def forward(self, x):
        self.total.data.add_(1)
        if self.fails:
            raise ValueError("no")
        return x * 2


@pytest.mark.parametrize(
    ("fails", "trust_versions", "left"), [(False, True, 1), (False, False, 0), (True, True, 0), (True, False, 0)]
)
def test_a_write_without_a_version_stays_after_a_quick_run_alone(fails, trust_versions, left):
    model = Writes(fails=fails)
    guard = Snapshot(model)

    result = run(model, guard=guard, trust_versions=trust_versions)

    assert isinstance(result, RunFailure) == fails
    assert model.total == left
    guard.restore()
    assert model.total == 0


@pytest.mark.parametrize(("trust_versions", "left"), [(True, 2), (False, 0)])
def test_writes_of_two_calls_without_a_version_stay_after_a_quick_run_alone(trust_versions, left):
    model = Writes()

    run(model, trust_versions=trust_versions, second_call=True)

    assert model.total == left


def test_the_generators_stand_where_the_call_left_them():
    drawn, again, untouched = run(torch.rand_like), run(torch.rand_like), run(torch.sin)

    assert drawn.rng == again.rng
    assert drawn.rng != untouched.rng


class Weighs(nn.Module):
    """Multiplies by a weight; the backward counts in a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        made = x * self.weight
        if made.requires_grad:
            made.register_hook(lambda gradient: self.seen.add_(1) and None)
        return made


def test_gradients_are_those_of_parameters_and_inputs():
    model = Weighs()

    assert run(model).gradients is None
    assert set(run(model, grads=True).gradients) == {"weight", "input 0"}


def test_a_write_of_the_backward_is_put_back():
    model = Weighs()

    assert isinstance(run(model, grads=True), RunResult)
    assert model.seen == 0


class Encloses(nn.Module):
    """Calls a function that counts in an enclosed variable."""

    def __init__(self):
        super().__init__()
        calls = 0

        def counted(module, args):
            nonlocal calls
            calls += 1

        self.register_forward_pre_hook(counted)

    def forward(self, x):
        return x * 2


class Appends(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = []

    def forward(self, x):
        self.inputs.append(1)
        return x * 2


class Counts(nn.Module):
    """Adds to its buffers in turn, one for each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("later", torch.zeros(()))

    def forward(self, x):
        if self.calls:
            self.later.add_(1)
        self.calls.add_(1)
        return x * self.calls


class Draws(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x):
        return x + torch.rand(4, generator=self.generator)


@pytest.mark.parametrize(
    ("made", "options", "is_called_twice"),
    [
        (nn.Identity, {}, False),
        (nn.Identity, {"second_call": True}, True),
        (Counts, {}, True),
        (Appends, {}, True),
        (Draws, {}, False),
        (Encloses, {}, True),
    ],
)
def test_a_call_that_leaves_something_for_the_next_one_has_a_second_one(made, options, is_called_twice):
    model = made()

    assert (run(model, **options).second_output is not None) == is_called_twice


def test_the_states_of_the_own_generators_are_told_and_no_other_reading():
    assert [*run(Draws()).generators] == ["the generator generator"]
    assert run(Encloses()).generators == {}


def test_the_state_of_all_calls_is_put_back():
    model = Counts()

    result = run(model)

    assert (model.calls, model.later) == (0, 0)
    assert set(result.second_output.state.changed) == {"calls", "later"}
    assert torch.equal(result.output, X)


@pytest.mark.parametrize("calls", [2, 3, 4])
def test_as_many_calls_run_in_a_row_as_are_asked_for(calls):
    drawn = []

    def draws(x):
        drawn.append(float(torch.rand(())))
        return x * 2

    later = run(draws, second_call=True, calls=calls).second_output
    count = 1
    while later is not None:
        later, count = later.next, count + 1

    assert count == len(drawn) == calls
    assert len(set(drawn)) == calls  # the generators go on


def test_a_run_makes_two_calls_in_a_row_by_default():
    assert run(nn.Identity(), second_call=True).second_output.next is None


@pytest.mark.parametrize(
    ("inputs", "is_same"), [("same", True), ("others", False), ("inner", False)]
)  # fmt: skip
def test_a_later_call_has_other_inputs_unless_the_same_are_asked_for(inputs, is_same):
    x = torch.linspace(-1, 1, 100)
    second = run(lambda x: x * 1, x, second_call=True, second_inputs=inputs).second_output

    assert torch.equal(second.value, x) == is_same
    assert second.value.shape == x.shape
    assert (second.value.abs().max() == 1) == (inputs != "inner")


@pytest.mark.parametrize(
    ("mode", "grads", "recording"),
    [
        (contextlib.nullcontext, False, [True, True]),
        (contextlib.nullcontext, True, [True, False]),
        (torch.no_grad, False, [False, False]),
        (torch.no_grad, True, [True, False]),
        (torch.inference_mode, True, [True, False]),
    ],
)
def test_gradients_are_recorded_in_the_first_call_on_request_and_else_as_the_caller_does(mode, grads, recording):
    found = []

    def asks(x):
        found.append(torch.is_grad_enabled() and not torch.is_inference_mode_enabled())
        return x * 2

    with mode():
        run(asks, grads=grads, second_call=True)

    assert found == recording


def test_an_output_keeps_its_history_with_gradients_alone():
    model = nn.Linear(4, 4)

    plain, with_gradients = run(model, second_call=True), run(model, grads=True)

    assert plain.output.grad_fn is None
    assert plain.second_output.value.grad_fn is None
    assert with_gradients.output.grad_fn is not None


class Returns(nn.Module):
    def __init__(self, returned):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.weight = nn.Parameter(torch.ones(2))
        self.returned = returned

    def forward(self, x):
        self.total.add_(1)
        self.made = self.returned(self, x)
        return self.made


def test_an_output_without_state_and_history_is_the_object_of_the_call():
    made = []

    def returns(x):
        made.append([x * 2, x.to_sparse(), None])
        return made[-1]

    assert run(returns).output is made[0]


@pytest.mark.parametrize(
    ("returned", "values"),
    [
        (lambda module, x: module.total, [1, 1]),
        (lambda module, x: [x[:2] * 0, module.total], [1, 1]),
        (lambda module, x: [module.total, x[:2] * 0], [0, 0]),
        (lambda module, x: [module.weight * 3, x[:2] * 0 + 2], [2, 2]),
        (lambda module, x: [x[:2] * 0 + 2, module.weight * 3], [3, 3]),
    ],
)
def test_an_output_does_not_change_when_the_state_is_put_back(returned, values):
    model = Returns(returned)

    output = run(model).output
    parts = output if isinstance(output, list) else [output]

    assert model.total.tolist() == [0, 0]
    assert parts[-1].tolist() == values
    assert all(part.grad_fn is None for part in parts)
    if len(parts) == 2 and "total" in returned.__code__.co_names:
        assert sorted(part.tolist() for part in parts) == [[0, 0], [1, 1]]


def test_an_output_of_a_state_that_shares_memory_is_a_copy():
    model = Returns(lambda module, x: module.total[:1])

    assert run(model).output.tolist() == [1]
    assert run(model, grads=True).output.tolist() == [1]
