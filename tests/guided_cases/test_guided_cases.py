"""The graph of a small model answers as eager does, or refuses the call."""

from __future__ import annotations

import pytest

from tests.guided_cases.judgement import faults, judge
from tests.guided_cases.table import CASES


@pytest.mark.sampled(every=3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, id=f"{each.theme}-{each.name}", marks=[pytest.mark.slow] if place % 2 else [])
        for place, each in enumerate(CASES)
    ],
)
def test_every_call_is_right_or_refused(case):
    assert faults(judge(case)) == []


def test_names_of_cases_are_unique():
    assert len({each.name for each in CASES}) == len(CASES)
