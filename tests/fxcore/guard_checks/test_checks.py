"""Whether a call is checked, and a run without numbers."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fxcore
from fxcore.errors import GuardError
from fxcore.guard_checks.checks import is_checked


def proxy():
    return fxcore.Proxy(fxcore.Graph().placeholder("x"))


@pytest.mark.parametrize(
    "inputs",
    [
        (1, proxy()),
        ([proxy()],),
        ((1, proxy()),),
        ({"a": proxy()},),
        (torch.fx.Proxy(torch.fx.Graph().placeholder("x")),),
    ],
)
def test_a_call_with_proxies_is_not_checked(inputs):
    assert not is_checked(*inputs)


def test_every_other_call_is_checked():
    assert is_checked(torch.ones(2), 1, None, [torch.ones(2)], {"a": 1})


def assumed(x):
    return x + 1 if fxcore.assume(x.sum() > 0) and x.shape[0] == 2 else x


def test_a_condition_on_numbers_that_do_not_exist_is_left_out():
    graph_module = fxcore.symbolic_trace(assumed, example_inputs=torch.ones(2))

    assert graph_module(torch.ones(2, device="meta")).is_meta
    with FakeTensorMode() as mode:
        assert graph_module(mode.from_tensor(torch.ones(2))).shape == (2,)
    with pytest.raises(GuardError):
        graph_module(-torch.ones(2))


def test_the_question_whether_inputs_fit_draws_no_number():
    graph_module = fxcore.symbolic_trace(
        lambda x: x + 1 if fxcore.assume(torch.rand(()) < 2) else x, example_inputs=torch.ones(2)
    )
    before = torch.get_rng_state()

    graph_module.supports(torch.ones(2))
    graph_module.check_guards(torch.ones(2))

    assert torch.equal(before, torch.get_rng_state())
