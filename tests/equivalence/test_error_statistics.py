"""How far two tensors lie apart, in figures."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_fxgraph.equivalence.error_statistics import agree, measure
from pytest_fxgraph.equivalence.tolerance import Tolerance
from pytest_fxgraph.report.numeric_failure import ErrorHistogram

CLOSE = Tolerance(1e-3, 1e-3)
EXACT = Tolerance(0.0, 0.0)


def test_values_within_the_tolerance_measure_nothing():
    assert measure(torch.tensor([1.0, 2.0]), torch.tensor([1.0005, 2.0]), CLOSE) is None


def test_the_largest_errors_are_named_with_their_place():
    expected = torch.tensor([[100.0, 1.0], [0.5, 3.0]])
    obtained = torch.tensor([[101.0, 1.0], [0.7, 3.0]])

    found = measure(expected, obtained, CLOSE)

    assert found is not None
    assert (found.mismatched, found.total, found.share) == (2, 4, 0.5)
    assert found.largest_absolute.index == (0, 0)
    assert found.largest_absolute.error == 1.0
    assert found.largest_relative.index == (1, 0)
    assert found.largest_relative.error == pytest.approx(0.4)
    assert found.describe()[0] == "2 of 4 elements (50.0%) differ beyond rtol=0.001, atol=0.001 (float32)"
    assert found.describe()[1] == (
        "max abs error 1 at [0, 0] (eager 100, graph 101); max rel error 0.4 at [1, 0] (eager 0.5, graph 0.7); "
        "mean 0.3, SQNR 39.8 dB, cosine 0.999998"
    )


def test_nan_equals_nan_and_infinity_equals_the_same_infinity():
    values = torch.tensor([math.nan, math.inf, -math.inf])

    assert measure(values, values.clone(), CLOSE) is None
    assert measure(values, values.clone(), EXACT) is None


@pytest.mark.parametrize("other", [1.0, math.inf, -math.inf])
def test_nan_equals_nothing_else(other):
    found = measure(torch.tensor([math.nan, 1.0]), torch.tensor([other, 1.0]), CLOSE)

    assert found is not None
    assert found.mismatched == 1
    assert found.largest_absolute.error == found.largest_relative.error == math.inf
    assert found.mean_absolute == 0.0
    alone = measure(torch.tensor([math.nan]), torch.tensor([other]), CLOSE)
    assert alone is not None
    assert alone.mean_absolute == math.inf


def test_in_an_exact_comparison_nan_equals_nan_alone():
    assert measure(torch.tensor([complex(math.nan, 1)]), torch.tensor([complex(1, math.nan)]), EXACT) is None
    for pair in ((math.nan, 1.0), (1.0, math.nan)):
        assert measure(*map(torch.tensor, pair), EXACT) is not None


def test_an_error_beside_zero_is_infinite_in_relation():
    found = measure(torch.tensor([0.0, 2.0]), torch.tensor([0.5, 3.0]), CLOSE)

    assert found is not None
    assert (found.largest_relative.error, found.largest_relative.index) == (math.inf, (0,))
    assert (found.largest_absolute.error, found.largest_absolute.index) == (1.0, (1,))


def test_opposite_infinities_differ():
    assert measure(torch.tensor([math.inf]), torch.tensor([-math.inf]), CLOSE) is not None


def test_large_integers_are_told_apart_though_floats_could_not():
    expected = torch.tensor([2**53], dtype=torch.int64)

    found = measure(expected, expected + 1, EXACT)

    assert found is not None
    assert found.mismatched == 1


def test_bools_and_complex_numbers_and_scalars_are_measured():
    assert measure(torch.tensor([True, False]), torch.tensor([True, True]), EXACT) is not None
    found = measure(torch.tensor(1 + 1j), torch.tensor(1 - 1j), CLOSE)
    assert found is not None
    assert found.largest_absolute.error == pytest.approx(2.0)
    assert found.largest_absolute.index == ()
    assert str(found.largest_absolute) == "2 (eager 1+1j, graph 1-1j)"


def test_whole_numbers_are_shown_with_all_their_digits():
    found = measure(torch.tensor([12345678]), torch.tensor([12345679]), EXACT)

    assert found is not None
    assert str(found.largest_absolute) == "1 at [0] (eager 12345678, graph 12345679)"


@pytest.mark.skipif(not hasattr(torch, "float8_e4m3fn"), reason="this torch has no 8-bit floats")
def test_8_bit_floats_are_measured():
    expected = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    obtained = torch.tensor([1.0, 3.0]).to(torch.float8_e4m3fn)

    assert measure(expected, expected.clone(), EXACT) is None
    found = measure(expected, obtained, EXACT)
    assert found is not None
    assert found.mismatched == 1


def test_signal_to_noise_and_cosine_follow_their_definitions():
    expected, obtained = torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.5])

    found = measure(expected, obtained, CLOSE)

    assert found is not None
    assert found.sqnr == pytest.approx(10 * math.log10(25 / 0.25))
    assert found.cosine == pytest.approx(float(torch.nn.functional.cosine_similarity(expected, obtained, dim=0)))


def test_an_error_within_the_tolerance_is_not_named_as_the_place_of_the_mismatch():
    expected = torch.tensor([1000.0, 0.001])
    obtained = torch.tensor([1000.9, 0.101])

    found = measure(expected, obtained, CLOSE)

    assert found is not None
    assert found.largest_absolute.index == (1,)


def sqnr_of(decibels: float) -> Tolerance:
    return Tolerance(0.0, math.inf, sqnr=decibels)


def cosine_of(least: float) -> Tolerance:
    return Tolerance(0.0, math.inf, cosine=least)


def test_signal_to_noise_is_that_of_the_whole_tensor():
    expected = torch.tensor([3.0, 4.0, 0.0])
    obtained = torch.tensor([3.0, 4.0, 0.05])  # a noise of 0.05 beside a signal of 5: 40 dB

    assert measure(expected, obtained, sqnr_of(39.9)) is None
    found = measure(expected, obtained, sqnr_of(40.1))
    assert found is not None
    assert found.describe()[0] == "SQNR is 40.0 dB, at least 40.1 dB was asked for (3 elements, float32)"
    assert "max abs error 0.05 at [2] (eager 0, graph 0.05)" in found.describe()[1]


def test_a_cosine_sees_the_direction_and_not_the_size():
    expected = torch.tensor([1.0, 2.0])

    assert measure(expected, expected * 100, cosine_of(0.999)) is None
    found = measure(expected, torch.tensor([2.0, 1.0]), cosine_of(0.9))
    assert found is not None
    assert found.describe()[0] == "cosine is 0.800000, at least 0.9 was asked for (2 elements, float32)"


def test_all_thresholds_that_were_missed_are_told():
    found = measure(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0]), Tolerance(0.0, math.inf, 20, 0.9))

    assert found is not None
    assert found.describe()[0].startswith(
        "SQNR is 4.0 dB, at least 20 dB was asked for; cosine is 0.800000, at least 0.9"
    )


def test_a_threshold_is_reached_by_its_own_number():
    assert measure(torch.tensor([10.0]), torch.tensor([9.0]), sqnr_of(20.0)) is None
    assert measure(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]), cosine_of(0.6)) is None


@pytest.mark.parametrize("tolerance", [sqnr_of(1e-9), cosine_of(1e-9)])
def test_zeros_reach_no_threshold_and_nothing_but_zeros_passes_for_zeros(tolerance):
    zeros, values = torch.zeros(2), torch.tensor([0.0, 1e-30])

    assert measure(values, zeros, tolerance) is not None
    assert measure(zeros, values, tolerance) is not None
    assert measure(zeros, -zeros, tolerance) is None


@pytest.mark.parametrize("tolerance", [sqnr_of(1e-9), cosine_of(1e-9)])
def test_with_thresholds_nan_and_infinity_must_be_where_they_are_in_eager(tolerance):
    values = torch.tensor([math.nan, math.inf, -math.inf, 1.0])

    assert measure(values, torch.tensor([math.nan, math.inf, -math.inf, 1.01]), tolerance) is None
    assert measure(values[:3], values[:3].clone(), tolerance) is None
    found = measure(values, torch.tensor([math.nan, math.inf, math.inf, 1.0]), tolerance)
    assert found is not None
    assert found.describe()[0] == "1 of 4 elements (25.0%) are NaN or infinite in one run alone (float32)"


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_figures_are_right_where_a_square_leaves_double_precision(size):
    expected, obtained = torch.tensor([[3.0, 4.0], [4.0, 3.0]], dtype=torch.float64) * size

    found = measure(expected, obtained, EXACT)

    assert found is not None
    assert found.cosine == pytest.approx(0.96)
    assert found.sqnr == pytest.approx(20 * math.log10(5 / math.sqrt(2)))


def test_tensors_of_two_dtypes_can_be_measured():
    assert measure(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]).bfloat16(), CLOSE) is None
    assert measure(torch.tensor([1.0]), torch.tensor([2.0 + 1j]), CLOSE) is not None
    assert measure(torch.tensor([1.0 + 1j]), torch.tensor([1.0]), CLOSE) is not None


@pytest.mark.parametrize("tolerance", [CLOSE, EXACT, Tolerance(0.0, math.inf, 20.0), Tolerance(0.0, 0.0, None, 0.9)])
@pytest.mark.parametrize("obtained", [(1.0, 2.0), (1.0005, 2.0), (1.0, 3.0), (-1.0, -2.0), (0.0, math.nan)])
def test_two_tensors_agree_where_nothing_is_measured(tolerance, obtained):
    pair = torch.tensor([1.0, 2.0]), torch.tensor(obtained)

    assert agree(*pair, tolerance) is (measure(*pair, tolerance) is None)


@pytest.mark.parametrize(
    ("obtained", "histogram"),
    [
        # errors of 0, 0.0005, 0.05, 0.07 and 1.5
        ([1.0, 1.0005, 1.05, 1.07, 2.5], ErrorHistogram(-4, (1, 0, 0, 0, 0), (0, 0, 2, 0, 1), 1)),
        ([1.0, 1.0, 1.0, 2.0, math.nan], ErrorHistogram(0, (0,), (1,), 3, 1)),
        ([1.0, 1.0, 1.0, math.inf, math.nan], ErrorHistogram(0, (), (), 3, 2)),
        # at most twenty powers of ten: errors of 5e-5 and 1e-10 are in the first
        ([1.0 + 5e-5, 1.0 + 1e-10, 1.0, 1e16, 1.0], ErrorHistogram(-3, (2, *[0] * 19), (*[0] * 19, 1), 2)),
    ],
)
def test_errors_are_counted_by_their_power_of_ten(obtained, histogram):
    found = measure(torch.ones(5), torch.tensor(obtained, dtype=torch.float64), CLOSE)

    assert found is not None
    assert found.histogram == histogram
