from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import fxcore
from pytest_fxgraph.equivalence.changed_calls import ChangedCall
from pytest_fxgraph.equivalence.example_changes import CALL, Change, changes_of
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.errors import MismatchError


class Refusal(fxcore.FxError):
    """The refusal of a graph."""


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise ValueError("one row has no halves")
        self.seen += 1
        return x[: x.shape[0] // 2] * 2


class Other(Halves):
    """Stands for a graph; `answer` says how it goes wrong."""

    def __init__(self, answer) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(self, x)


EXAMPLE = Arguments((torch.arange(8.0).view(4, 2),), {})
ONE_ROW = Change("size", "input 0", "has one row", lambda x: x[:1])


def refused(module, x):
    raise Refusal("not these rows")


def refused_after_a_write(module, x):
    x.add_(1)
    raise Refusal("not these rows")


def refused_after_a_count(module, x):
    module.seen += 1
    raise Refusal("not these rows")


def failed(module, x):
    raise IndexError("no such row")


def test_an_equal_answer_is_right():
    assert ChangedCall(EXAMPLE).check(Halves(), Halves()) == "right"


def test_a_refusal_is_told_from_an_answer():
    assert ChangedCall(EXAMPLE).check(Halves(), Other(refused)) == "refused"


def test_a_refusal_of_gradients_is_called_again_with_gradients():
    def refuses_gradients(module, x):
        if x.requires_grad:
            raise Refusal("no gradients")
        raise IndexError("another call")

    assert ChangedCall(EXAMPLE, grads=True).check(Halves(), Other(refuses_gradients)) == "refused"


def test_a_call_that_both_refuse_by_errors_of_their_own_says_little():
    assert ChangedCall(EXAMPLE, (ONE_ROW,)).check(Halves(), Halves()) == "both raise"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda module, x: x[:2] * 3, r"output has other values"),
        (failed, r"forward of the graph raised IndexError: no such row; eager ran"),
        (refused_after_a_write, r"input 0 was changed by a call that the graph refused"),
        (refused_after_a_count, r"the state of the graph was changed by a call that the graph refused"),
        (lambda module, x: x[:2] * 2, r"buffer seen was changed by eager, not by the graph"),
    ],
)
def test_a_wrong_answer_is_a_mismatch_that_names_the_call(answer, words):
    call = ChangedCall(EXAMPLE, (Change("size", "input 0", "is itself", lambda x: x),))

    with pytest.raises(MismatchError, match=words) as caught:
        call.check(Halves(), Other(answer))

    assert "at this call: input 0 is itself" in str(caught.value)


def test_an_answer_to_a_call_that_the_model_refuses_is_a_mismatch():
    with pytest.raises(MismatchError, match="eager raised ValueError: one row has no halves; the graph answered"):
        ChangedCall(EXAMPLE, (ONE_ROW,)).check(Halves(), Other(lambda module, x: x))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_a_second_call_finds_state_that_the_graph_lost():
    graph = Other(lambda module, x: x * 1)

    assert ChangedCall(EXAMPLE).check(Counts(), graph) == "right"
    with pytest.raises(MismatchError, match="output of a second call has other values"):
        ChangedCall(EXAMPLE, twice=True).check(Counts(), graph)


class AsksForModes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0
        self.asked: list[object] = []

    def forward(self, x: Tensor) -> Tensor:
        modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
        return x * 1, [*modes, self.training, self.factor, torch.get_default_dtype()]


def changed_to(words: str) -> tuple[list[object], AsksForModes]:
    """Make the one change of these words; return the modes that a graph finds, and the model."""
    model, graph, found = AsksForModes().eval(), AsksForModes().eval(), []
    changes = [each for of_kind in changes_of(model, graph, EXAMPLE).values() for each in of_kind]
    (change,) = [each for each in changes if words in str(each)]

    def answer(module, x):
        found.append(AsksForModes.forward(graph, x)[1])
        raise Refusal("looked")

    graph.forward = partial(answer, graph)
    ChangedCall(EXAMPLE, (change,)).check(model, graph)
    return found[0], model


@pytest.mark.parametrize(
    ("words", "modes"),
    [
        ("the call has grad mode off", [False, False, False, False, 2.0, torch.float32]),
        ("the call is in inference mode", [False, True, False, False, 2.0, torch.float32]),
        ("the call is under autocast", [True, False, True, False, 2.0, torch.float32]),
        ("the call has float64 by default", [True, False, False, False, 2.0, torch.float64]),
        ("the model is in train mode", [True, False, False, True, 2.0, torch.float32]),
        ("factor is 3.0, not 2.0", [True, False, False, False, 3.0, torch.float32]),
    ],
)
def test_a_mode_holds_for_the_call_and_is_put_back(words, modes):
    found, model = changed_to(words)

    assert found == modes
    assert (model.training, model.factor) == (False, 2.0)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32


def test_model_graph_and_example_are_as_before():
    model, graph = Halves(), Halves()
    before = EXAMPLE.args[0].clone()
    swap = Change("argument", CALL, "writes", lambda given: Arguments((given.args[0].zero_(),), {}))

    ChangedCall(EXAMPLE, (swap,), twice=True).check(model, graph)

    assert model.seen == graph.seen == 0
    assert torch.equal(EXAMPLE.args[0], before)
