"""Budgets: what users may write, and what an allowance lets pass."""

from __future__ import annotations

import pytest

from pytest_fxgraph.budget import METRICS, Allowance, allowances_of
from pytest_fxgraph.errors import ChoiceError, VacuousCheckError


@pytest.mark.parametrize(
    ("written", "allowance"),
    [
        ("+1%", Allowance(1, is_percent=True)),
        ("2.5 %", Allowance(2.5, is_percent=True)),
        ("+0", Allowance(0)),
        (0, Allowance(0)),
        ("4096", Allowance(4096)),
        (None, None),
    ],
)
def test_an_allowance_is_a_percentage_or_a_number_or_none(written, allowance):
    assert allowances_of({"flops": written})["flops"] == allowance


def test_what_a_budget_does_not_name_may_not_change():
    assert allowances_of(None) == dict.fromkeys(METRICS, Allowance(0)) == allowances_of({})


@pytest.mark.parametrize("value", ["-1%", "a lot", -1, True, 1.5, "1%%", "+", "1e9"])
def test_any_other_allowance_is_refused_with_what_to_write(value):
    with pytest.raises(
        ChoiceError, match=r"^bytes: .* is no allowance; write '\+1%' of the golden's cost, a number such as"
    ):
        allowances_of({"bytes": value})


def test_a_cost_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(
        ChoiceError, match="there is no cost 'time'; there are flops, bytes, params, peak_activation, nodes"
    ):
        allowances_of({"time": 0})


def test_an_allowance_holds_upwards_and_downwards():
    percent, number = Allowance(1, is_percent=True), Allowance(5)

    assert [percent.allows(1000, cost) for cost in (989, 990, 1010, 1011)] == [False, True, True, False]
    assert [number.allows(1000, cost) for cost in (994, 995, 1005, 1006)] == [False, True, True, False]
    assert not percent.allows(0, 1)
    assert (str(percent), str(number)) == ("1%", "5")


def test_a_budget_that_judges_no_cost_is_refused():
    with pytest.raises(
        VacuousCheckError, match=r"the budget .* leaves out every cost, so that no graph could fail; allow"
    ):
        allowances_of(dict.fromkeys(METRICS))

    assert allowances_of({**dict.fromkeys(METRICS), "nodes": "100%"})["nodes"] == Allowance(100, is_percent=True)
