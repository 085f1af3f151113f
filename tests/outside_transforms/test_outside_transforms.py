"""Wrong transforms of an outside author are caught, and right ones are not accused."""

from __future__ import annotations

import pytest

from tests.outside_transforms.case import Case
from tests.outside_transforms.table import CASES
from tests.outside_transforms.verdict import ACCEPTED, DEFAULT, OPTION, judge, refusal

# A case that is solved fails here as XPASS: its line must go.
_VACUOUS = "a check that could not have failed passes (issue 25, number 8)"
_SECOND_CALL = "the second call has the same ends as the first, and the fault depends on the greatest value"
UNSOLVED: dict[str, str] = {
    **dict.fromkeys(("OnMeta", "EmptyBatch", "EmptyInEveryPart", "EmptyBesideNone", "EmptyWithThreshold"), _VACUOUS),
    **dict.fromkeys(("AllNan", "AllInfinite", "AllMinusInfinite", "NothingFinite", "ComplexNan"), _VACUOUS),
    **dict.fromkeys(("EmptyWithGradients", "NanWithThreshold", "MeanOfNothing", "ModelThatDividesByZero"), _VACUOUS),
    **dict.fromkeys(("NothingReturned", "NanInAPass"), _VACUOUS),
    "AllZerosOfIntegers": "integers count as values that could fail (docs/tolerances.md): an index may rightly be 0",
    "ZerosAndNan": "the places of NaN and infinity could have failed",
    "EmptyBesideFull": "the other output could have failed, and the search tries no other size for an empty tensor",
    "FoldedWithoutTheMeanOfAFreshModel": "fresh statistics hide it: docs/tolerances.md asks for random statistics",
    "GreatestOfTheFirstCall": _SECOND_CALL,
    "ScaleOfTheFirstCall": _SECOND_CALL,
    "ShapeOnMeta": "the notes on a mismatch read the values of a meta tensor",
    "KeywordThatTheTestLeavesOut": "the search varies no keyword that the test leaves out",
    "FactorOneRemoved": "the search varies numbers that the graph reads, and the graph reads none",
    "BroadcastTheOtherWay": "the search changes equal dimensions of two inputs together",
}


def parameter(case: Case) -> object:
    reason = UNSOLVED.get(case.name)
    marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
    if case.needs and "search" in case.needs:
        marks.append(pytest.mark.slow)
    return pytest.param(case, id=f"{case.theme}-{case.name}", marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_wrong_transforms_are_caught_and_right_ones_pass(case):
    if case.needs and "search" in case.needs:
        pytest.importorskip("hypothesis")

    verdict = judge(case)

    assert verdict.kind == (ACCEPTED if case.is_right else OPTION if case.needs else DEFAULT), verdict.message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.is_right])
def test_the_search_accuses_no_right_transform(case):
    pytest.importorskip("hypothesis")

    assert refusal(case, {**case.options, "search": 50}) == ""


def test_names_of_cases_are_unique_and_unsolved_cases_exist():
    names = {case.name for case in CASES}

    assert len(names) == len(CASES)
    assert names >= UNSOLVED.keys()
