from __future__ import annotations

import math

import pytest
import torch

from pytest_fxgraph.compare.close_numbers import (
    _distance,
    are_close,
    are_close_contents,
    argument_distance,
    close_argument,
    content_distance,
    difference_in_words,
    without_floats,
)
from pytest_fxgraph.document.literals import float_text
from pytest_fxgraph.document.tensor_texts import constant_text

CURE = 'constants="close" accepts that'
NEXT = float_text(math.nextafter(0.1, 1))


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        ("0.1", NEXT),
        ("(1, (0.1, None))", f"(1, ({NEXT}, None))"),
        ('{"scale": 0.1}', f'{{"scale": {NEXT}}}'),
        ("complex(0.1, 1.0)", f"complex({NEXT}, 1.0)"),
        ("numpy.float64(0.1)", f"numpy.float64({NEXT})"),
        ("1e-05", "1.0000000000000002e-05"),
        ("-1e+16", "-1.0000000000000002e+16"),
        ("slice(0.1, 2, None)", f"slice({NEXT}, 2, None)"),
    ],
)
def test_a_float_one_ulp_off_is_close_however_deep_it_stands(expected, obtained):
    assert close_argument(expected, obtained) == expected


def test_references_keep_their_names():
    assert close_argument("[%x, 0.1]", f"[%y, {NEXT}]") == "[%y, 0.1]"


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        ("1", "2"),
        ("1000000", "1000001"),
        ("1.0", "1"),
        ("1.0", "True"),
        ("0.0", "-0.0"),
        ("0.0", "1e-300"),
        ("nan", "-nan"),
        ("nan", "nan(0x7ff8000000000001)"),
        ("inf", "-inf"),
        ("inf", "1.7976931348623157e+308"),
        ("0.1", "0.1001"),
        ("1.0", "1.001"),
        ("(0.1, 2)", f"({NEXT}, 3)"),
        ("(0.1, 1.0)", f"({NEXT}, 1.5)"),
        ("[0.1]", f"({NEXT},)"),
        ('"0.1"', f'"{NEXT}"'),
        ("torch.float32", "torch.float64"),
        ("%x_1", "%x_2"),
        ("tensor(float32[1], [0.1])", f"f(float32[1], [{NEXT}])"),
        ("tensor(float32[1], [0.1])", f"tensor(float64[1], [{NEXT}])"),
    ],
)
def test_anything_else_counts_as_ever(expected, obtained):
    assert close_argument(expected, obtained) == obtained
    assert argument_distance(expected, obtained) == ""


def test_the_distance_of_an_argument_is_told_in_ulps():
    assert argument_distance("0.1", NEXT) == f"1 ulp apart; {CURE}"
    assert argument_distance("(0.1, 1.0)", "(0.1, 1.0000000000000004)") == f"2 ulps apart; {CURE}"


def nudged(tensor, *places):
    flat = tensor.clone().reshape(-1)
    for place in places:
        flat[place] = torch.nextafter(flat[place], torch.tensor(torch.inf, dtype=tensor.dtype))
    return flat.reshape(tensor.shape)


def contents(expected, obtained, *levels):
    texts = [
        constant_text(each, level) for each, level in zip((expected, obtained), levels or ("exact",) * 2, strict=True)
    ]
    return *texts, f"{str(expected.dtype).removeprefix('torch.')}[{len(expected)}]"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_distance_of_a_small_constant_is_told_in_ulps_of_its_dtype(dtype):
    tensor = torch.tensor([1.5, -2.5, 3.0, 0.5], dtype=torch.float64).to(dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    other = tensor.clone()
    other.view(bits)[1] += 2

    found = content_distance(*contents(tensor, other))

    if dtype in (torch.float64, torch.float32):
        assert found == f"at most 2 ulps apart, in 1 of 4 values; {CURE}"
    else:  # two ulps of so few digits are more than rounding
        assert found == ""


@pytest.mark.parametrize("size", [64, 65])
def test_a_constant_a_few_ulps_off_is_close_whatever_its_size_and_however_it_was_written(size):
    tensor = torch.linspace(-1, 1, size)
    other = nudged(tensor, 3, 40)

    for levels in (("exact", "exact"), ("exact", "close"), ("close", "exact"), ("close", "close")):
        assert are_close_contents(*contents(tensor, other, *levels))


def test_the_distance_of_a_large_constant_is_that_of_its_statistics():
    tensor = torch.linspace(0.5, 1, 100)
    expected, obtained, value = contents(tensor, nudged(tensor, 3))

    assert content_distance(expected, obtained, value) == (
        f"differ; relative distance of min, max, mean and norm: 0.0e+00; {CURE}"
    )
    assert "norm: 2.0e-04;" in content_distance(expected.replace("min=0.5", "min=0.5001"), obtained, value)


def test_one_text_that_holds_less_is_told():
    tensor = torch.linspace(0.5, 1, 10)

    assert content_distance(*contents(tensor, nudged(tensor, 3), "close", "exact")) == (
        f'the same as far as both hold them: one was written at constants="close"; {CURE}'
    )


@pytest.mark.parametrize(
    ("expected", "obtained"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1])),
        (torch.tensor([1.0, 2.0]), torch.tensor([[1.0], [2.0]])),
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (torch.tensor([True, False]), torch.tensor([True, True])),
        (torch.arange(100), torch.arange(100).flip(0)),
        (torch.ones(100), torch.ones(100) * 1.01),
        (torch.tensor([1.0, torch.inf]), torch.tensor([1.0, -torch.inf])),
        (torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 1.0])),
    ],
)
def test_other_contents_are_not_close(expected, obtained):
    texts = contents(expected, obtained)

    assert not are_close_contents(*texts)
    assert content_distance(*texts) == ""


def test_zeros_and_nans_of_constants_are_close_whatever_their_bits():
    assert are_close_contents("[0.0, nan]", "[-0.0, -nan]", "float32[2]")
    assert content_distance("[0.0]", "[-0.0]", "float32[1]") == f"the sign of zero differs, or what a NaN holds; {CURE}"


def test_a_number_near_zero_is_measured_by_the_largest():
    assert are_close_contents("[1.0, 0.0]", "[1.0, 6e-08]", "float32[2]")
    assert not are_close_contents("[0.0]", "[6e-08]", "float32[1]")


def test_a_tensor_as_argument_is_judged_as_a_constant():
    large = torch.linspace(0.5, 1, 100)
    expected, obtained, _ = contents(large, nudged(large, 3))
    texts = [f"tensor(float32[100], {text})" for text in (expected, obtained)]

    assert close_argument(*texts) == texts[0]
    assert argument_distance(*texts).endswith(CURE)
    whole = [text.replace("float32", "int64") for text in texts]
    assert close_argument(*whole) == whole[1]


def test_without_floats_only_their_places_are_left():
    assert without_floats('(1, 0.5, "0.5", %x_1)') == '(1, ~, "0.5", %x_1)'


def positions(rows=512, columns=16):
    """Return a table of sines, as models keep for positions."""
    angles = torch.arange(rows).unsqueeze(1) / torch.logspace(0, 4, columns)
    return torch.cat([angles.sin(), angles.cos()], 1)


def are_close_at(expected, obtained, level="close"):
    texts = [constant_text(tensor, level) for tensor in (expected, obtained)]
    return are_close_contents(*texts, "float32[512, 32]")


def test_a_table_in_another_order_is_not_close():
    table = positions()
    swapped = table.clone()
    swapped[[3, 200]] = swapped[[200, 3]]

    assert not are_close_at(table, swapped)
    assert not are_close_at(table, table[torch.randperm(512, generator=torch.Generator().manual_seed(0))])
    assert not are_close_at(table, table.flip(0))
    assert not are_close_at(table, table.flip(1))


@pytest.mark.parametrize("seed", range(20))
def test_rounding_does_not_change_the_sketch_of_the_order(seed):
    generator = torch.Generator().manual_seed(seed)
    for table in (
        positions(),
        torch.randn(512, 32, generator=generator),
        torch.randn(512, 32, generator=generator) + 9,
    ):
        noise = 1 + 1e-6 * torch.randn(table.shape, generator=generator)

        assert are_close_at(table, table * noise)
        assert are_close_at(table, table * 1.00001)


def test_a_text_without_a_sketch_is_compared_by_its_statistics():
    with_sketch = constant_text(positions(), "close")
    without = with_sketch.partition(", sketch=")[0] + ")"

    assert are_close_contents(without, with_sketch, "float32[512, 32]")
    assert are_close_contents(with_sketch, without, "float32[512, 32]")
    assert without_floats(with_sketch) == without_floats(without)


def test_the_sketch_leaves_out_numbers_that_are_not_finite():
    table = positions()
    table[0, 0], table[1, 1] = math.inf, math.nan

    assert are_close_at(table, table)
    assert "nan" not in constant_text(table, "close")
    assert constant_text(torch.zeros(100), "close").endswith("norm=0.0, sketch=0.0)")


def test_a_distance_is_told_in_steps_of_its_format_or_by_its_size():
    assert str(_distance(1.0, 1.0 + 2**-23, "float32")) == "1 ulp apart"
    assert str(_distance(1.0, 1.0 + 2**-22, "float32")) == "2 ulps apart"
    assert str(_distance(1.0, 1.25, "float128")) == "apart by 2.0e-01 of its size"


@pytest.mark.parametrize(
    ("expected", "obtained", "dtype", "ulps"),
    [
        (1.0, 1.0, "float32", 0),
        (-1.0, -1.0 - 2**-23, "float32", 1),
        (1.0, 1.0 + 2**-50, "float64", 4),
        (1.0, 1.0 + 2**-10, "float16", 1),
        (1.0, 1.0 + 2**-6, "bfloat16", 2),
        (0.0, -0.0, "float64", 0),
        (5e-324, -5e-324, "float64", 2),
        (2.0, 2.0 - 2**-23, "float32", 1),
    ],
)
def test_a_distance_counts_the_floats_of_a_format_between_two_numbers(expected, obtained, dtype, ulps):
    for pair in ((expected, obtained), (obtained, expected)):
        assert str(_distance(*pair, dtype)) == f"{ulps} ulp{'' if ulps == 1 else 's'} apart"


@pytest.mark.parametrize(
    ("expected", "obtained", "is_rounded", "is_close"),
    [
        (1000.0, 1000.5, False, True),
        (1000.0, 1000.51, False, False),
        (-1000.0, -1000.5, False, True),
        (999.9, 1000.0, True, True),
        (1000.0, 1001.0, True, True),
        (1000.0, 1001.1, True, False),
        (1e-8, 1.0005e-8, False, True),
        (1.0, -1.0, True, False),
        (math.inf, 1e308, True, False),
        (math.nan, math.nan, False, True),
        (math.nan, 1.0, True, False),
        (0.0, 0.0, False, True),
    ],
)
def test_close_numbers_differ_by_half_a_unit_of_the_fourth_digit_or_a_whole_one(
    expected, obtained, is_rounded, is_close
):
    assert are_close(expected, obtained, is_rounded) is is_close
    assert are_close(obtained, expected, is_rounded) is is_close


def test_a_mean_near_zero_is_measured_by_the_largest_number_and_not_by_the_norm():
    texts = [f"min=-1.0, max=1.0, mean={mean}, norm=5000.0" for mean in ("0.0001", "0.0002", "0.0001005")]

    assert not are_close_contents(*texts[:2], "float32[100]")
    assert are_close_contents(*texts[::2], "float32[100]")


@pytest.mark.parametrize(
    ("numbers", "is_close"),
    [
        ("min=0.0, max=1.0, mean={}e-07, norm=9.0", True),
        ("min=-1.0, max=0.0, mean={}e-07, norm=9.0", True),
        ("min=0.0, max=0.1, mean={}e-07, norm=9.0", False),
    ],
)
def test_a_mean_is_measured_by_the_larger_of_minimum_and_maximum(numbers, is_close):
    assert are_close_contents(numbers.format(1), numbers.format(3), "float32[100]") is is_close


def test_a_text_with_few_digits_may_be_a_whole_unit_apart():
    assert are_close_contents("close([1.0])", "close([1.001])", "float32[1]")
    assert not are_close_contents("[1.0]", "[1.001]", "float32[1]")


def test_a_number_is_close_up_to_a_millionth_of_the_largest():
    assert are_close_contents("[1.0, 0.0]", "[1.0, 1e-06]", "float32[2]")
    assert not are_close_contents("[1.0, 0.0]", "[1.0, 1.01e-06]", "float32[2]")


@pytest.mark.parametrize(
    ("expected", "obtained", "words"),
    [
        ("close(min=0.0, sketch=0.5)", "close(min=0.0, sketch=0.1)", "differ in their order"),
        ("close(min=0.0, sketch=0.5)", "[1.0]", ""),
        ("[1.0]", "close(min=0.0, sketch=0.5)", ""),
        ("close([nan, 1.0])", "close([0.0, 1.0])", ""),
        ("close([1.0, inf])", "close([2.0, 1.0])", ""),
        ("close([1.0, 2.0])", "close([1.5, 2.0])", "differ by up to 0.5"),
    ],
)
def test_only_two_sketches_tell_of_another_order(expected, obtained, words):
    assert difference_in_words(expected, obtained, "float32[100]") == words


def test_a_tensor_as_argument_with_and_without_a_sketch_is_compared_by_its_statistics():
    with_sketch = f"tensor(float32[512, 32], {constant_text(positions(), 'close')})"
    without = with_sketch.partition(", sketch=")[0] + "))"

    assert close_argument(with_sketch, without) == with_sketch
    assert close_argument(without, with_sketch) == without


def test_the_largest_number_may_stand_anywhere():
    assert are_close_contents("[0.0, 0.0, 0.0, 1.0]", "[6e-08, 0.0, 0.0, 1.0]", "float32[4]")
