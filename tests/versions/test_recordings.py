"""Goldens that torch 2.6, 2.13 and 2.14 recorded, under Python 3.13, 3.11 and 3.14, hold under each of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import permutations

import pytest
from torch import nn

from fixtures.leaf_modules import (
    LEAVES,
    NO_ODD_VALUE,
    NO_ODD_VALUE_OF_CLASS,
    NOT_LEAVES,
    SAME_AS_DEFAULT,
    leaf_makers,
    odd_arguments,
)
from fixtures.recordings import HERE, RECORDED_UNDER, RecordedCase, Recordings, recorded_cases
from fixtures.torch_differences import DIFFERENCES, difference_between
from fixtures.torch_versions import TORCH
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.constructors import NEVER, parameters_in_table
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.report.text import other_torch_remark

LEVELS = ("structure", "exact")
CASES = recorded_cases()
TORCHES = [(2, 6), (2, 13), (2, 14)]
RECORDED = Recordings.read().cases


@functools.lru_cache(maxsize=64)
def document(text: str) -> GraphDocument:
    return decode(text, "a recorded golden")


@functools.cache
def obtained_text(name: str) -> str | None:
    return CASES[name].text()


def agree(expected: str | None, obtained: str | None, level: str) -> bool:
    """Tell whether two goldens match; one that could not be made matches only its like."""
    if expected is None or obtained is None or expected == obtained:
        return expected == obtained
    return compare_documents(document(expected), document(obtained), level=level).is_empty


def surprises(name: str, expected: tuple[str, str | None], obtained: tuple[str, str | None]) -> Iterator[str]:
    """Say at which levels two goldens match or differ though they should not."""
    for level in LEVELS:
        known = difference_between(name, level, expected, obtained)
        if agree(expected[1], obtained[1], level) == (known is not None):
            what = f"{name}, recorded by {expected[0]} and read by {obtained[0]}, at {level}"
            yield f"{what}: no difference, though {known.reason}" if known else f"{what}: a difference"


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.long] if case.is_long else []) for case in CASES.values()],
)
def test_a_golden_of_another_torch_holds_under_this_one(case: RecordedCase):
    if case.is_missing:
        pytest.skip(f"{case.requires} is not installed")
    if case.name.startswith("export ") and TORCH not in TORCHES:
        pytest.skip("what torch.export makes of a model is its own affair in each version: it is known for three")
    obtained = obtained_text(case.name)

    for versions, expected in RECORDED[case.name].items():
        assert not list(surprises(case.name, (versions, expected), (HERE, obtained)))


def test_recorded_goldens_hold_under_each_version_that_recorded():
    found = [
        surprise
        for name, of_versions in RECORDED.items()
        if len(set(of_versions.values())) > 1
        for expected, obtained in permutations(of_versions.items(), 2)
        for surprise in surprises(name, expected, obtained)
    ]

    assert not found


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", sorted(LEAVES.keys() - {"LinearCrossEntropyLoss"}))
def test_an_odd_argument_is_a_difference_under_each_torch(name):
    default = RECORDED[f"leaf {name}()"]

    for call in leaf_makers(name):
        obtained = obtained_text(f"leaf {call}")
        if call == f"{name}()" or call in SAME_AS_DEFAULT or obtained is None or call.startswith("Own"):
            continue
        for versions, expected in default.items():
            assert not agree(expected, obtained, "structure"), f"{call} is the default one of {versions}"


def test_every_version_recorded_every_case():
    assert RECORDED.keys() == CASES.keys()
    assert all(set(of_versions) == set(RECORDED_UNDER) for of_versions in RECORDED.values())


def test_the_leaves_are_all_that_torch_exports():
    exported = {name for name, value in vars(nn).items() if isinstance(value, type) and issubclass(value, nn.Module)}

    assert exported - NOT_LEAVES.keys() - LEAVES.keys() == set()
    # Those of a newer torch alone are listed as its own.
    assert (LEAVES.keys() | NOT_LEAVES.keys()) - exported <= {"LinearCrossEntropyLoss"}


def test_every_parameter_of_a_leaf_has_an_odd_value_or_a_reason_to_have_none():
    for name in LEAVES:
        tried = {parameter for odd in odd_arguments(name) for parameter in odd}
        without = {
            parameter
            for parameter, (default, _) in parameters_in_table(f"torch.nn.{name}").items()
            if default is not NEVER
        }

        explained = NO_ODD_VALUE.keys() | NO_ODD_VALUE_OF_CLASS.get(name, {}).keys() | LEAVES[name].keys()
        assert without - tried <= explained, name


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.reason)
def test_a_difference_that_is_listed_is_seen_in_the_recordings(difference):
    seen = [
        name
        for name, of_versions in RECORDED.items()
        for expected, obtained in permutations(of_versions.items(), 2)
        for level in LEVELS
        if difference_between(name, level, expected, obtained) is difference
        and not agree(expected[1], obtained[1], level)
    ]

    assert all(any(fnmatchcase(name, pattern) for name in seen) for pattern in difference.cases)


def test_a_remark_on_another_torch_stands_where_recordings_of_two_releases_differ():
    found = set()
    for name, of_versions in RECORDED.items():
        for expected, obtained in permutations(of_versions, 2):
            texts = of_versions[expected], of_versions[obtained]
            if None in texts or not name.startswith(("export ", "capture ")):
                continue
            difference = compare_documents(*map(document, texts))
            running = obtained.removeprefix("torch ").partition(",")[0]
            if other_torch_remark(difference, running) is not None:
                assert difference_between(name, "structure", *zip((expected, obtained), texts, strict=True)), name
                found.add(name)

    assert found == {
        *("export attention", "export slices", "capture aot attention"),
        *("export comparisons", "export dtypes_and_devices", "export functional_loss"),
    }
