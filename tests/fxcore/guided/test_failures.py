"""A failed trace is told with its place, or with the first line of the traced function."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fxcore.errors import TraceError
from fxcore.guided.failures import CaughtErrors, explained

X = torch.ones(2)


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    ("root", "place"),
    [
        (Net(), f"{__file__}:{Net.forward.__code__.co_firstlineno}: def forward(self, x: torch.Tensor)"),
        (doubled, f"{__file__}:{doubled.__code__.co_firstlineno}: def doubled(x: torch.Tensor)"),
        (torch.neg, "builtin_function_or_method"),
    ],
    ids=["module", "function", "builtin"],
)
def test_an_error_without_a_line_of_the_user_is_told_with_the_first_line_of_the_function(root, place):
    told = explained(ValueError("too deep"), root, "forward", (X,), None)

    assert type(told) is TraceError
    assert str(told).startswith(f"tracing raised ValueError: too deep at {place}")


def test_an_error_with_a_line_of_the_user_is_told_with_that_line():
    try:
        raise ValueError("too deep")
    except ValueError as error:
        told = explained(error, doubled, "forward", (X,), None)

    assert 'raise ValueError("too deep")' in str(told).splitlines()[0]
    assert "def doubled" not in str(told)


def test_an_error_that_the_users_code_caught_is_refused_behind_one_that_torch_caught():
    caught = CaughtErrors({"other.py:1": True, "test_failures.py:2": False})
    caught.note(ValueError("caught in C"))
    try:
        raise ValueError("too deep")
    except ValueError as error:
        caught.note(error)
        line = error.__traceback__.tb_lineno

    with pytest.raises(TraceError, match=rf"the traced code catches ValueError: too deep at .*test_failures.py:{line}"):
        caught.refuse_caught()
    caught.forget_since(1)
    caught.refuse_caught()
    assert len(caught) == 1


@pytest.mark.parametrize("is_assumed", [True, False])
def test_a_caught_error_is_taken_where_the_user_assumes_it(is_assumed):
    try:
        raise ValueError("too deep")
    except ValueError as error:
        raised = error
    caught = CaughtErrors({f"test_failures.py:{raised.__traceback__.tb_lineno}": is_assumed})
    caught.note(raised)

    if is_assumed:
        caught.refuse_caught()
    else:
        with pytest.raises(TraceError, match="the traced code catches ValueError: too deep"):
            caught.refuse_caught()


class OfTwoMethods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.add_(1)
        return x * self.weight

    def other(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("of the model")


def test_the_error_of_the_traced_method_is_the_model_s_own() -> None:
    model = OfTwoMethods()

    assert type(explained(ValueError("too deep"), model, "forward", (X,), None)) is TraceError
    assert repr(explained(ValueError("too deep"), model, "other", (X,), None)) == "KeyError('of the model')"
    assert model.weight.tolist() == [0, 0]
