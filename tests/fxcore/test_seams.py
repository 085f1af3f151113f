"""Seams: the lower file calls, the upper file provides."""

from __future__ import annotations

import pytest

from fxcore.seams import Seam


def test_a_seam_calls_the_provided_function_and_the_function_stays_itself():
    seam: Seam[[int, int], int] = Seam()

    @seam.provide
    def difference(first: int, second: int) -> int:
        return first - second

    assert seam(5, second=3) == 2
    assert difference(3, 5) == -2


def test_a_seam_without_its_function_cannot_be_called():
    with pytest.raises(AssertionError):
        Seam()()
