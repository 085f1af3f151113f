"""Which differences count."""

from __future__ import annotations

import math

import pytest
import torch

from fixtures.quantized_tensors import with_wrapped_weights
from pytest_fxgraph.equivalence.tolerance import Tolerance, ToleranceRule, largest_magnitude, nearest

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]


@pytest.mark.parametrize("dtype", FLOATS)
def test_defaults_for_values_of_one_are_those_of_torch_testing(dtype):
    tolerance = ToleranceRule().for_tensor(torch.ones(1, dtype=dtype))
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_the_default_atol_shrinks_with_the_largest_value(dtype):
    values = torch.tensor([0.0, 0.25, -0.125], dtype=dtype)

    assert ToleranceRule().for_tensor(values).atol == 0.25 * ToleranceRule().for_tensor(values * 0 + 1).atol
    assert ToleranceRule().for_tensor(values * 0).atol == 0
    assert ToleranceRule().for_tensor(values * 400).atol == ToleranceRule().for_tensor(values * 4).atol


def test_an_atol_that_was_given_is_never_scaled():
    assert ToleranceRule(atol=1e-5).for_tensor(torch.tensor([1e-9])).atol == 1e-5
    assert ToleranceRule(atol=1e-5).for_number(1e-9).atol == 1e-5
    assert ToleranceRule(atol=1e-5).for_gradients([torch.tensor([1e-9])]).for_tensor(torch.ones(1)).atol == 1e-5
    assert ToleranceRule(atol=1e-5).grown(torch.tensor([1e4])) is None
    assert ToleranceRule(atol=1e-5, scale=0.5).for_tensor(torch.ones(1)).atol == 1e-5


def test_a_scale_takes_the_place_of_the_magnitude_and_of_the_gradients():
    rule = ToleranceRule(scale=0.5).for_gradients([torch.tensor([1e-9])])

    assert rule.for_tensor(torch.tensor([1e-9])).atol == 0.5e-5


def test_what_is_not_finite_has_no_say_in_the_magnitude():
    assert largest_magnitude([torch.tensor([math.nan, 3.0, -math.inf]), torch.tensor([-4.0])]) == 4.0
    assert largest_magnitude([torch.tensor([math.nan])]) == 0.0
    assert largest_magnitude([torch.tensor([3e38 + 3e38j])]) == pytest.approx(3e38 * math.sqrt(2))
    assert largest_magnitude([]) == largest_magnitude([torch.empty(0), torch.tensor([7])]) == 0.0
    assert largest_magnitude([torch.ones(1, device="meta")]) == 0.0
    assert largest_magnitude([torch.tensor([math.nan, -3.0]).bfloat16(), torch.tensor([2.0])]) == 3.0


@pytest.mark.parametrize(
    "values",
    [
        torch.tensor([[0.0, -2.0]]).to_sparse(),
        torch.tensor([[0.0, -2.0]]).to_sparse_csr(),
        torch.tensor([2.0]).to(torch.float8_e4m3fn),
        torch.tensor([2j]),
        torch.nested.nested_tensor([torch.ones(2), torch.full((1,), -2.0)]),
    ],
    ids=["sparse", "rows", "8 bits", "complex", "ragged"],
)
def test_tensors_of_every_kind_have_a_magnitude(values):
    assert largest_magnitude([values]) == 2.0


def test_gradients_of_one_kind_share_their_magnitude():
    rounding, real = torch.tensor([1e-12]), torch.tensor([1e-4])

    rule = ToleranceRule().for_gradients([rounding, real])

    assert rule.for_tensor(rounding).atol == pytest.approx(1e-7)  # a thousandth of the largest
    assert ToleranceRule().for_gradients([torch.tensor([50.0])]).for_tensor(rounding).atol == 1e-5


def test_large_values_may_be_rounded_by_more():
    assert ToleranceRule().grown(torch.tensor([7e3, 0.1])) == Tolerance(1.3e-6, 7e3 * 1e-5)
    assert ToleranceRule().grown(torch.tensor([0.9])) is None
    assert ToleranceRule().grown(torch.tensor([1.0])) is None
    assert ToleranceRule(rtol=0.5).grown(torch.tensor([2.0])) == Tolerance(0.5, 2e-5)
    assert ToleranceRule(cosine=0.9).grown(torch.tensor([1e4])) is None
    assert ToleranceRule().grown(torch.tensor([complex(1.5e308, 1.5e308)], dtype=torch.complex128)) is None


def test_large_gradients_grow_by_the_largest_of_their_kind():
    rule = ToleranceRule().for_gradients([torch.tensor([50.0]), torch.tensor([0.5])])

    assert rule.grown(torch.tensor([0.5])) == Tolerance(1.3e-6, 50 * 1e-5)


def test_integers_are_exact_unless_the_caller_says_more():
    assert ToleranceRule().for_tensor(torch.tensor([7])).is_exact
    assert ToleranceRule(atol=1).for_tensor(torch.tensor([7])) == Tolerance(0.0, 1)
    assert not ToleranceRule(atol=1).for_tensor(torch.tensor([7])).is_exact
    assert not ToleranceRule(rtol=0.5).for_tensor(torch.tensor([7])).is_exact


def test_what_the_caller_left_open_follows_the_dtype():
    assert ToleranceRule(rtol=0.5).for_tensor(torch.ones(1)) == Tolerance(0.5, 1e-5)


def test_a_number_is_compared_as_closely_as_it_is_small():
    assert ToleranceRule().for_number(1.0) == Tolerance(1e-7, 1e-7)
    assert ToleranceRule().for_number(-1e-9).atol == pytest.approx(1e-16)
    assert ToleranceRule().for_number(400.0) == ToleranceRule().for_number(1.0)


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_a_tolerance_below_zero_is_refused(wrong):
    with pytest.raises(ValueError, match="rtol must be a number of at least 0"):
        ToleranceRule(rtol=wrong)


def test_the_first_glob_that_matches_a_path_counts_and_other_paths_follow_the_dtype():
    rule = ToleranceRule({"output[0]": 0.5, "*.logits": 0.25, "output*": 0.125}, {"output['a']": 0.75})

    assert rule.for_path("output[0]").for_tensor(torch.ones(1)) == Tolerance(0.5, 1e-5)
    assert rule.for_path("output.logits").for_tensor(torch.ones(1)) == Tolerance(0.25, 1e-5)
    assert rule.for_path("output['a']").for_tensor(torch.ones(1)) == Tolerance(0.125, 0.75)
    assert rule.for_path("gradient of w").for_tensor(torch.ones(1)) == Tolerance(1.3e-6, 1e-5)


def test_in_a_glob_only_the_star_has_a_meaning():
    rule = ToleranceRule(rtol={"output[01]": 0.5, "output?": 0.5})

    assert rule.for_path("output0") == ToleranceRule()
    assert rule.globs_without_match(["output[0]", "output[01]"]) == ["output?"]


def test_a_second_call_returns_at_the_same_paths_as_the_first():
    assert ToleranceRule(rtol={"output[0]": 0.5}).for_path("output of a second call[0]").rtol == 0.5
    assert ToleranceRule(rtol={"output[0]": 0.5}).for_path("output of a third call[0]").rtol == 0.5


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_one_of_the_two_tolerances_may_have_numbers_by_path(name):
    assert getattr(ToleranceRule(**{name: {"output": 0.5}}).for_path("output"), name) == 0.5
    assert ToleranceRule(**{name: {"input 0": 0.5}}).globs_without_match(["output"]) == ["input 0"]


def test_without_a_path_numbers_by_path_have_no_say():
    assert ToleranceRule(rtol={"*": 0.5}).for_tensor(torch.ones(1)) == ToleranceRule().for_tensor(torch.ones(1))


def test_paths_that_a_call_leaves_out_follow_the_test():
    assert nearest(None, 0.1) == 0.1
    assert nearest(0.2, {"output": 0.1}) == nearest(0.2, 0.1) == nearest(0.2, None) == 0.2
    assert nearest({"output": 0.1}, None) == {"output": 0.1}
    assert nearest({"output[0]": 0.2}, 0.1) == {"output[0]": 0.2, "*": 0.1}
    assert nearest({"output[0]": 0.2}, {"output[0]": 0.1, "*": 0.3}) == {"output[0]": 0.2, "*": 0.3}


def test_thresholds_take_the_place_of_the_default_tolerance_but_not_of_a_given_one():
    assert ToleranceRule(sqnr=30).for_tensor(torch.ones(1)) == Tolerance(0.0, math.inf, 30)
    assert ToleranceRule(cosine=0.9).for_tensor(torch.ones(1)) == Tolerance(0.0, math.inf, None, 0.9)
    assert ToleranceRule(rtol=0.5, sqnr=30).for_tensor(torch.ones(1)) == Tolerance(0.5, 0.0, 30)
    assert ToleranceRule(sqnr=0.5).for_tensor(torch.ones(1)) == Tolerance(0.0, math.inf, 0.5)
    assert ToleranceRule(sqnr=30).for_tensor(torch.tensor([1])).is_exact
    assert ToleranceRule(sqnr=30).for_number(1.0) == Tolerance(1e-7, 1e-7)
    assert ToleranceRule(sqnr=30).grown(torch.tensor([1e4])) is None


def test_a_gradient_that_is_rounding_alone_has_no_direction_to_compare():
    rule = ToleranceRule(cosine=0.9).for_gradients([torch.tensor([2.0]), torch.tensor([1e-6])])

    assert rule.for_tensor(torch.tensor([1e-6])) == Tolerance(0.0, 4e-3)
    assert rule.for_tensor(torch.tensor([2e-3], dtype=torch.float64)) == Tolerance(0.0, 4e-3)
    assert rule.for_tensor(torch.tensor([1.0])).cosine == 0.9
    assert rule.for_tensor(torch.tensor([0.0625])).cosine == 0.9


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sqnr": 0}, "sqnr must be a number of decibels above 0, which zeros reach, got 0"),
        ({"sqnr": math.nan}, "sqnr must be"),
        ({"sqnr": "30"}, "sqnr must be a number of decibels above 0, which zeros reach, got '30'"),
        ({"cosine": "0.9"}, "cosine must be a number between 0 and 1, got '0.9'"),
        ({"rtol": "1e-3"}, "rtol must be a number of at least 0, got '1e-3'"),
        ({"sqnr": math.inf}, "sqnr must be a number of decibels above 0, which zeros reach, got inf"),
        ({"cosine": math.nan}, "cosine must be a number between 0 and 1, got nan"),
        ({"atol": -1, "rtol": 0}, "atol must be a number of at least 0, got -1"),
        ({"cosine": 1}, "cosine must be a number between 0 and 1, got 1"),
        ({"cosine": 0.0}, "cosine must be a number between 0 and 1, got 0.0"),
        ({"rtol": {"output": -1}}, "rtol of 'output' must be a number of at least 0, got -1"),
        ({"atol": {"*": math.nan}}, "atol of '\\*' must be a number of at least 0, got nan"),
    ],
)
def test_a_threshold_that_zeros_reach_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        ToleranceRule(**wrong)


def test_tolerances_print_as_they_are_written():
    assert str(Tolerance(1e-3, 1e-5)) == "rtol=0.001, atol=1e-05"
    assert str(Tolerance(0, 0)) == "exact equality"
    assert str(Tolerance(0, 1e-5)) == "rtol=0, atol=1e-05"
    assert str(Tolerance(0.5, 0)) == "rtol=0.5, atol=0"
    assert str(Tolerance(0, math.inf, 30, 0.99)) == "an SQNR of at least 30 dB, a cosine of at least 0.99"
    assert str(Tolerance(0.5, 0.25, None, 0.99)) == "rtol=0.5, atol=0.25, a cosine of at least 0.99"
    assert str(Tolerance(0.5, 0.25, 30)) == "rtol=0.5, atol=0.25, an SQNR of at least 30 dB"
    assert str(Tolerance(0, math.inf)) == "rtol=0, atol=inf"


def test_the_largest_magnitude_of_a_tensor_that_wraps_others_is_that_of_its_parts():
    model = with_wrapped_weights(torch.nn.Linear(4, 4))
    weight = next(model.parameters())

    assert largest_magnitude([weight]) == largest_magnitude([weight.scale])
