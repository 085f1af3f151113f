"""Which differences count."""

from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.equivalence.tolerance import Tolerance, ToleranceRule


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_defaults_are_those_of_torch_testing(dtype):
    tolerance = ToleranceRule().for_dtype(dtype)
    one = torch.ones(1, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    inside, outside = (one * (1 + tolerance.rtol * factor + tolerance.atol * factor) for factor in (0.999, 1.001))

    # Compared in double with these figures, as torch.testing compares narrow types with its own defaults.
    torch.testing.assert_close(inside, one, rtol=tolerance.rtol, atol=tolerance.atol)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(outside, one, rtol=tolerance.rtol, atol=tolerance.atol)
    assert _torchs_own(dtype) == (tolerance.rtol, tolerance.atol)


def _torchs_own(dtype: torch.dtype) -> tuple[float, float]:
    """Read the tolerances from the message of a failing assert_close."""
    with pytest.raises(AssertionError) as caught:
        torch.testing.assert_close(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
    words = str(caught.value)
    atol = float(words.partition("Greatest absolute difference")[2].partition("(up to ")[2].partition(" allowed")[0])
    rtol = float(words.partition("Greatest relative difference")[2].partition("(up to ")[2].partition(" allowed")[0])
    return rtol, atol


def test_integers_are_exact_unless_the_caller_says_more():
    assert ToleranceRule().for_dtype(torch.int64).is_exact
    assert ToleranceRule(atol=1).for_dtype(torch.int64) == Tolerance(0.0, 1)


def test_what_the_caller_left_open_follows_the_dtype():
    assert ToleranceRule(rtol=0.5).for_dtype(torch.float32) == Tolerance(0.5, 1e-5)


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_a_tolerance_below_zero_is_refused(wrong):
    with pytest.raises(ValueError, match="rtol must be a number of at least 0"):
        ToleranceRule(rtol=wrong)
