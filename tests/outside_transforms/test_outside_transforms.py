"""Wrong transforms of an outside author are caught, and right ones are not accused."""

from __future__ import annotations

import pytest

from tests.outside_transforms.case import Case
from tests.outside_transforms.table import CASES
from tests.outside_transforms.verdict import ACCEPTED, DEFAULT, OPTION, judge, refusal

# A case that is solved fails here as XPASS: its line must go.
UNSOLVED: dict[str, str] = {
    "AllZerosOfIntegers": "integers count as values that could fail (docs/tolerances.md): an index may rightly be 0",
    "ZerosAndNan": "the places of NaN and infinity could have failed",
    "EmptyBesideFull": "the other output could have failed, and the search tries no other size for an empty tensor",
    "FoldedWithoutTheMeanOfAFreshModel": "fresh statistics hide it: docs/tolerances.md asks for random statistics",
    "BroadcastTheOtherWay": "the search changes equal dimensions of two inputs together",
}


def is_searched(case: Case) -> bool:
    return not case.is_right and "search" in (case.needs or {})


def parameter(place: int, case: Case) -> object:
    reason = UNSOLVED.get(case.name)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
    if is_searched(case) or (case.theme == "values" and place % 3):  # of plain faults one of three runs by default
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=f"{case.theme}-{case.name}", marks=marks)


@pytest.mark.sampled(every=2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [parameter(place, case) for place, case in enumerate(CASES)])
def test_wrong_transforms_are_caught_and_right_ones_pass(case):
    if is_searched(case):
        pytest.importorskip("hypothesis")

    verdict = judge(case)

    assert verdict.kind == (ACCEPTED if case.is_right else OPTION if case.needs else DEFAULT), verdict.message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.is_right and case.needs])
def test_the_search_accuses_no_right_transform(case):
    pytest.importorskip("hypothesis")

    assert refusal(case, {**case.options, **case.needs}) == ""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.is_right and case.needs])
def test_the_search_accuses_no_right_transform_in_twenty_seeds(case):
    options = {**case.options, **case.needs, "search": 200}

    assert [seed for seed in range(20) if refusal(case, {**options, "seed": seed})] == []


def test_names_of_cases_are_unique_and_unsolved_cases_exist():
    names = {case.name for case in CASES}

    assert len(names) == len(CASES)
    assert names >= UNSOLVED.keys()
