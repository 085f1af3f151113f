"""Values are of the kind that the fill names, within the accepted limits, and the same for the same seed."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_fxgraph.equivalence.search.values import EITHER, INDEX_BITS, PATTERN, ValueRange, filled

FLOATS = ValueRange(torch.float32, -2.0, 5.0)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def fills_of(values: ValueRange):
    yield from (kind for kind in values.kinds if kind != PATTERN)
    for place in range(len(values.special_values())):
        yield (place, *range(min(6, len(values.ordinary_values()))), *[0] * (6 - len(values.ordinary_values())))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64, torch.bool, torch.uint8, torch.int8, torch.int64])
def test_each_fill_gives_values_of_the_dtype_that_depend_on_the_seed_alone(dtype):
    values = ValueRange(dtype, 0, 3, 0, 3)

    for fill in fills_of(values):
        first, again = filled(fill, values, 50, 1), filled(fill, values, 50, 1)

        assert (first.dtype, first.shape) == (dtype, (50,))
        assert torch.equal(first.nan_to_num() if dtype.is_floating_point else first,
                           again.nan_to_num() if dtype.is_floating_point else again)  # fmt: skip
        assert filled(fill, values, 0, 1).shape == (0,)


def test_another_seed_gives_other_random_values():
    assert not torch.equal(filled("range", FLOATS, 50, 1), filled("range", FLOATS, 50, 2))


def test_a_range_is_kept():
    drawn = filled("range", FLOATS, 1000, 0)

    assert -2 <= drawn.min() < -1.9
    assert 4.9 < drawn.max() <= 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_huge_values_are_finite_and_tiny_values_are_not_zero(dtype):
    values = ValueRange(dtype, 0.0, 1.0)

    assert filled("huge", values, 1000, 0).isfinite().all()
    assert (filled("tiny", values, 1000, 0) != 0).sum() > 900
    numbers = torch.tensor(values.special_values(), dtype=dtype)
    finite = numbers[numbers.isfinite()].double().abs()
    assert finite.max() > 1e4
    assert 0 < finite[finite > 0].min() < 1e-4


def test_a_pattern_repeats_along_the_tensor_and_begins_with_a_special_number():
    place = [repr(number) for number in FLOATS.special_values()].index("nan")

    drawn = filled((place, 1, 2, 0, 0, 0, 0), FLOATS, 9, 0)

    assert math.isnan(drawn[0])
    assert math.isnan(drawn[7])
    assert drawn[1:7].tolist() == [1, -1, 0, 0, 0, 0]


def test_extreme_fills_are_told_from_ordinary_ones():
    extreme = [number for place, number in enumerate(FLOATS.special_values()) if FLOATS.is_extreme((place, *[0] * 6))]

    assert not any(math.isfinite(number) and 1e-6 < abs(number) < 1e6 for number in extreme)
    assert 0.0 not in extreme
    assert FLOATS.is_extreme("huge")
    assert not FLOATS.is_extreme("wide")
    assert not ValueRange(torch.int8, 0, 3, -128, 127).is_extreme((6, 0, 0, 0, 0, 0, 0))


def test_minus_zero_is_another_number_than_zero():
    signs = torch.tensor(FLOATS.special_values()).signbit()

    assert any(number == 0 and bool(sign) for number, sign in zip(FLOATS.special_values(), signs, strict=True))


def test_the_kept_element_comes_first_and_all_others_are_zero():
    whole = filled("range", FLOATS, 2**INDEX_BITS, 0)
    bits = tuple(300 >> place & 1 for place in range(INDEX_BITS))

    assert filled("range", FLOATS, 3, 0, bits).tolist() == [whole[300].item(), 0, 0]
    odd = filled("range", FLOATS, 4, 0, (1, *[EITHER] * (INDEX_BITS - 1)))
    assert odd.tolist() == [whole[1].item(), 0, whole[3].item(), 0]


def test_integers_stay_within_the_accepted_limits():
    values = ValueRange(torch.int32, 3, 9, -1, 40)

    drawn = {fill: filled(fill, values, 500, 0) for fill in fills_of(values)}

    assert all(each.min() >= -1 and each.max() <= 40 for each in drawn.values())
    assert (drawn["range"].min(), drawn["range"].max()) == (3, 9)
    assert (drawn["accepted"].min(), drawn["accepted"].max()) == (-1, 40)
    assert {-1, 0, 1, 39, 40} <= set(values.special_values())


def test_the_ends_of_64_bits_can_be_drawn():
    ends = torch.iinfo(torch.int64)
    values = ValueRange(torch.int64, 0, 1, ends.min, ends.max)

    assert {ends.min, ends.max} <= set(values.special_values())
    assert all(filled((place, *[0] * 6), values, 1, 0).item() == number
               for place, number in enumerate(values.special_values()))  # fmt: skip
    assert filled("accepted", values, 500, 0).abs().max() > 2**60


@pytest.mark.parametrize(
    ("values", "kinds", "ordinary"),
    [
        (FLOATS, (PATTERN, "range", "normal", "wide", "huge", "tiny"), [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0]),
        (ValueRange(torch.complex64, 0, 1), (PATTERN, "normal"), [0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0]),
        (ValueRange(torch.bool, 0, 1, 0, 1), (PATTERN, "range"), [0, 1]),
        (ValueRange(torch.bool, 1, 1, 0, 1), (PATTERN, "range"), [0, 1]),
        (ValueRange(torch.int64, 2, 9, 2, 9), (PATTERN, "range"), [2, 3, 9]),
        (ValueRange(torch.int64, 2, 9, 2, 10), (PATTERN, "range", "accepted"), [2, 3, 9]),
        (ValueRange(torch.int64, 2, 9, -5, 9), (PATTERN, "range", "accepted"), [0, 1, -1, 2, 3, 9]),
    ],
)
def test_the_kinds_and_the_simplest_numbers_suit_the_dtype(values, kinds, ordinary):
    assert values.kinds == kinds
    assert values.ordinary_values() == ordinary


def test_the_first_number_of_a_pattern_may_be_special():
    assert ValueRange(torch.int64, 2, 9, -5, 40).special_values() == [0, 1, -1, -5, -4, 39, 40]
    assert ValueRange(torch.bool, 0, 1, 0, 1).special_values() == [0, 1]
    assert len(FLOATS.special_values()) == 16
    finite = FLOATS._replace(is_finite=True).special_values()
    assert all(map(math.isfinite, finite))
    assert finite[4:8] == [0.5, 3.0, -3.0, 0.5]


@pytest.mark.parametrize(
    ("kind", "least", "largest"), [("wide", 1e-3, 1e3), ("huge", 1e12, 1e38), ("tiny", 1e-39, 1e-35)]
)
def test_magnitudes_of_both_signs_lie_between_two_powers_of_ten(kind, least, largest):
    drawn = filled(kind, FLOATS, 4000, 0).double()

    assert drawn.min() < 0 < drawn.max()
    assert least * 0.9 < drawn.abs().min() < drawn.abs().max() < largest * 4
    assert 0.4 < (drawn > 0).double().mean() < 0.6


def test_integers_outside_of_kept_elements_are_the_nearest_to_zero():
    values = ValueRange(torch.int64, 3, 9, 2, 40)

    assert filled("range", values, 3, 0, (0,) * INDEX_BITS).tolist()[1:] == [2, 2]
