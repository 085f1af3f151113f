"""How far two tensors lie apart, in figures."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.tolerance import Tolerance

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
    assert "max abs error 1 at [0, 0] (eager 100, graph 101)" in found.describe()[1]


def test_nan_equals_nan_and_infinity_equals_the_same_infinity():
    values = torch.tensor([math.nan, math.inf, -math.inf])

    assert measure(values, values.clone(), CLOSE) is None
    assert measure(values, values.clone(), EXACT) is None


@pytest.mark.parametrize("other", [1.0, math.inf, -math.inf])
def test_nan_equals_nothing_else(other):
    found = measure(torch.tensor([math.nan, 1.0]), torch.tensor([other, 1.0]), CLOSE)

    assert found is not None
    assert found.mismatched == 1
    assert found.largest_absolute.error == math.inf


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
