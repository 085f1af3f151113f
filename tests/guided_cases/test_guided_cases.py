"""The graph of a small model answers as eager does, or refuses the call."""

from __future__ import annotations

import pytest

from tests.guided_cases.case import Case
from tests.guided_cases.judgement import faults, judge
from tests.guided_cases.table import CASES

_CONSTANTS = "plain attributes and globals are constants of the graph (docs/tracing.md, Limits)"
# A case that is solved fails here as XPASS: its line must go.
UNSOLVED: dict[str, str] = {
    **dict.fromkeys(("GlobalNumber", "GlobalDict", "EnvironmentVariable"), _CONSTANTS),
    **dict.fromkeys(("PlainAttribute", "PropertyOfModule"), _CONSTANTS),
}


def parameter(each: Case) -> object:
    reason = UNSOLVED.get(each.name)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
    return pytest.param(each, id=f"{each.theme}-{each.name}", marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [parameter(each) for each in CASES])
def test_every_call_is_right_or_refused(case):
    assert faults(judge(case)) == []


def test_names_of_cases_are_unique_and_unsolved_cases_exist():
    names = {each.name for each in CASES}

    assert len(names) == len(CASES)
    assert names >= UNSOLVED.keys()
