"""The words that a user chooses from."""

from __future__ import annotations

import pytest

from pytest_fxgraph.choices import CHECKS, checks_named
from pytest_fxgraph.errors import ChoiceError


def test_checks_are_named_by_one_name_or_several():
    assert checks_named("values") == {"values"}
    assert checks_named(["strides", "values", "values"]) == {"strides", "values"}
    assert checks_named(set(CHECKS) - {"strides"}) == frozenset(CHECKS) - {"strides"}


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("value",), r"there is no check 'value' \(did you mean 'values'\?\); there are 'values', 'dtype'"),
        ("stride", "there is no check 'stride' .did you mean 'strides'"),
        (("values", "shape"), "there is no check 'shape'; there are"),
        ((3,), "there is no check 3; there are"),
        ((), r"checks=\(\) compares nothing; name at least one of 'values'"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest(names, words):
    with pytest.raises(ChoiceError, match=words):
        checks_named(names)
