from __future__ import annotations

from typing import Any

import pytest
import torch

from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.choices import CHECKS
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.options import CheckDefaults
from pytest_fxgraph.errors import ChoiceError

ARGUMENTS = Arguments((torch.ones(1),), {})


def check(test: dict[str, Any], **call: Any):
    return CheckDefaults(**test).new_check(ARGUMENTS, call)


def rule(test: dict[str, Any], **call: Any):
    rule = check(test, **call).comparison.rule
    return rule.rtol, rule.atol, rule.sqnr, rule.cosine


@pytest.mark.parametrize(
    ("test", "call", "tolerances"),
    [
        ({}, {}, (None, None, None, None)),
        ({"rtol": 0.1, "atol": 0.2}, {}, (0.1, 0.2, None, None)),
        ({"rtol": 0.1, "atol": 0.2}, {"rtol": 0.3}, (0.3, 0.2, None, None)),
        ({"rtol": 0.1, "atol": 0.2}, {"atol": 0.3}, (0.1, 0.3, None, None)),
        ({"rtol": 0.1}, {"rtol": 0.0}, (0.0, None, None, None)),
        # tolerances of the call replace thresholds of the test, and the reverse
        ({"sqnr": 20.0, "cosine": 0.9}, {}, (None, None, 20.0, 0.9)),
        ({"sqnr": 20.0, "cosine": 0.9}, {"rtol": 0.1}, (0.1, None, None, None)),
        ({"sqnr": 20.0, "cosine": 0.9}, {"sqnr": 30.0}, (None, None, 30.0, 0.9)),
        ({"sqnr": 20.0, "cosine": 0.9}, {"cosine": 0.8}, (None, None, 20.0, 0.8)),
        ({"rtol": 0.1, "atol": 0.2}, {"sqnr": 30.0}, (None, None, 30.0, None)),
        ({"rtol": 0.1}, {"cosine": 0.8, "atol": 0.2}, (None, 0.2, None, 0.8)),
    ],
)
def test_tolerances_of_a_call_go_before_those_of_its_test(test, call, tolerances):
    assert rule(test, **call) == tolerances


@pytest.mark.parametrize(
    ("options", "checks"),
    [
        ({}, set(CHECKS)),
        ({"checks": "values"}, {"values"}),
        ({"checks": ("values",), "grads": True}, {"values", "gradients"}),
        ({"checks": "gradients", "grads": True}, {"gradients"}),
        ({"checks": ("requires_grad", "values")}, {"requires_grad", "values"}),
    ],
)
def test_gradients_are_among_the_checks_where_they_are_asked_for(options, checks):
    assert check({}, **options).comparison.checks == checks


@pytest.mark.parametrize("checks", ["gradients", ("gradients", "requires_grad")])
def test_checks_of_gradients_alone_need_gradients(checks):
    with pytest.raises(ChoiceError, match="compares nothing without grads=True"):
        check({}, checks=checks)


@pytest.mark.parametrize(("test", "seed"), [({}, 0), ({"seed": 5}, 5), ({"seed": None}, 0)])
def test_a_check_draws_from_the_seed_of_its_test(test, seed):
    assert check(test).seed == seed


def test_an_option_that_does_not_exist_is_an_error_of_python():
    with pytest.raises(TypeError, match=r"CheckDefaults.__call__\(\) got an unexpected keyword argument 'tol'"):
        CheckDefaults().chosen({"tol": 1})


def test_an_option_of_none_follows_the_test():
    defaults = CheckDefaults(samples=3, seed=5)

    assert defaults.chosen({"samples": None, "seed": 0})["samples"] == 3
    assert defaults.chosen({"seed": 0})["seed"] == 0


@pytest.mark.parametrize(
    ("test", "call", "tries"),
    [({}, {}, None), ({}, {"search": 0}, None), ({"search": 5}, {}, 5), ({"search": 5}, {"search": 0}, None)],
)
def test_a_search_has_a_budget_where_it_has_tries(test, call, tries):
    budget = CheckDefaults(**test).search_budget(call, 2)

    assert (None if budget is None else budget.tries) == tries


@pytest.mark.parametrize("tries", [True, False])
def test_a_truth_value_is_no_number_of_tries(tries):
    with pytest.raises(ValueError, match="search"):
        CheckDefaults().search_budget({"search": tries}, 1)


def test_a_search_without_seconds_is_refused():
    with pytest.raises(ValueError, match="search_seconds must be a number above 0"):
        CheckDefaults().search_budget({"search": 5, "search_seconds": 0}, 1)


@pytest.mark.parametrize(
    ("test", "call", "seconds", "values"),
    [
        ({}, {}, 60, "all"),
        ({"search_seconds": 3.0, "search_values": "finite"}, {}, 3.0, "finite"),
        ({"search_seconds": 3.0}, {"search_seconds": 5.0, "search_values": "finite"}, 5.0, "finite"),
        ({"search_values": None}, {"search_values": "all"}, 60, "all"),
        ({"search_values": None}, {}, 60, "all"),
    ],
)
def test_a_search_has_seconds_and_values(test, call, seconds, values):
    budget = CheckDefaults(**test).search_budget({"search": 2, **call}, 3)

    assert (budget.seconds, budget.values, budget.parts) == (seconds, values, 3)


def test_a_check_without_options_has_one_sample_and_no_gradients():
    made = check({})

    assert (made.samples, made.grads, made.seed, made.tells_path, made.strict_inputs) == (1, False, 0, False, False)
    assert (made.comparison.requires_grad, made.allow_vacuous, made.fp64_reference) == (False, False, False)
    assert CheckDefaults(tells_path=True).new_check(ARGUMENTS, {}).tells_path is True


def test_all_checks_of_a_session_share_its_memory():
    pool = BufferPool()

    assert CheckDefaults(buffer_pool=pool)._buffer_pool is pool
    assert isinstance(CheckDefaults()._buffer_pool, BufferPool)
