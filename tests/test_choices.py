"""The words that a user chooses from."""

from __future__ import annotations

import inspect
from typing import Any, TypedDict

import pytest

from pytest_fxgraph.choices import CHECKS, check_options, checks_named, shows_options
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


class Options(TypedDict, total=False):
    first: int
    second: str


def test_a_function_shows_the_options_of_its_record():
    @shows_options(Options, second="two")
    def function(value: int, *values: int, own: bool = True, **options: Any) -> None:
        """Do something."""

    assert str(inspect.signature(function, eval_str=False)).replace("'", "") == (
        "(value: int, *values: int, own: bool = True, first: int = None, second: str = two) -> None"
    )


def test_an_option_that_is_not_in_the_record_is_refused_as_python_does():
    check_options({"first": 1, "second": "2"}, Options, "function")
    check_options({}, Options, "function")

    with pytest.raises(TypeError, match=r"^function\(\) got an unexpected keyword argument 'third'$"):
        check_options({"first": 1, "third": 3}, Options, "function")
