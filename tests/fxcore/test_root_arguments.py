from __future__ import annotations

import pytest
import torch
from torch import nn

import fxcore
from fixtures.oracle import assert_same, assert_same_success
from fxcore import PH
from fxcore.errors import FxError
from fxcore.root_arguments import PHWithMeta


def positional_only(x, /, y, *, z, w=3):
    return x + y + z + w


def starred(x, *rest, k=1, **named):
    return x + rest[0] + k + named["q"]


def only_starred(*rest):
    return rest[0] + rest[1]


def defaults(a=torch.float32, b=(1, 2), c={"k": 1}, d=slice(1), e=None, f="text", g=1j, h=..., i=range(3)):  # noqa: B006
    return a


def annotated(x: torch.Tensor, n: int = 2) -> torch.Tensor:
    return x * n


@pytest.mark.parametrize("function", [positional_only, starred, only_starred, defaults, annotated])
def test_parameters_become_placeholders_as_in_torch_fx(function):
    assert_same_success(lambda fx: (fx.symbolic_trace(function).graph, fx.symbolic_trace(function).code))


def test_starred_arguments_run():
    assert fxcore.symbolic_trace(starred)(1, 3, 2, q=4) == 10  # k comes before *rest, as in torch.fx
    assert fxcore.symbolic_trace(only_starred)(1, 2) == 3


def flagged(x, flag=True, n=3, nothing=None, scale=1.5):
    return x * n if flag else x + scale


@pytest.mark.parametrize(
    "concrete",
    [
        {"flag": True},
        {"flag": False, "n": 2},
        {"flag": True, "scale": float("nan")},
        {"flag": True, "n": torch.ones(1)},
        {"flag": 1, "unknown": 3},
        (5, True, 3, None, 1.5),
        {},
    ],
    ids=str,
)
def test_concrete_values_are_fixed_and_checked_as_in_torch_fx(concrete):
    def code(fx):
        text = fx.symbolic_trace(flagged, concrete).code
        # The function that checks for None is each library's own.
        return text.replace("torch.fx._symbolic_trace._assert", "fxcore_root_arguments__assert")

    assert_same(code)


def test_an_input_fixed_to_none_must_stay_none_also_after_tracing_again():
    traced = fxcore.symbolic_trace(lambda x, y=None: x if y is None else x + y, {"y": None})
    again = [traced, fxcore.symbolic_trace(traced), torch.fx.symbolic_trace(traced)]

    for module in again:
        assert module(1) == 1
        with pytest.raises(AssertionError, match="y has been specialized to have value None but got another value"):
            module(1, 2)


def test_a_tuple_of_values_must_have_one_for_each_parameter():
    with pytest.raises(RuntimeError, match="Tracing expected 5 arguments but got 1 concrete arguments") as caught:
        fxcore.symbolic_trace(flagged, (PH,))

    assert isinstance(caught.value, FxError)


def test_a_forward_without_self_is_refused():
    class Model(nn.Module):
        def forward(*args):
            return args[0]

    with pytest.raises(RuntimeError, match="``self`` argument cannot be part of"):
        fxcore.symbolic_trace(Model())


def test_attributes_of_a_marker_are_passed_on_to_the_node():
    traced = fxcore.symbolic_trace(annotated, {"x": PHWithMeta(ph_key="image"), "n": PH})

    assert next(iter(traced.graph.nodes)).ph_key == "image"


def test_a_decorated_function_has_the_parameters_of_the_one_inside():
    class Model(nn.Module):
        @torch.no_grad()
        def forward(self, x, n=3):
            return x * n

    assert_same_success(lambda fx: fx.symbolic_trace(Model()).code)
