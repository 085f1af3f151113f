"""Arguments that no setting has, and records of options."""

from __future__ import annotations

import inspect
from typing import Any, TypedDict

import pytest

from pytest_fxgraph.arguments import check_options, shows_options


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
