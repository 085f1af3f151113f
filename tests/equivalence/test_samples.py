"""Further samples are other values of the same spec."""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.arguments import arguments_of
from pytest_fxgraph.equivalence.samples import fresh_sample


def test_a_sample_keeps_shape_stride_dtype_and_what_is_no_tensor():
    arguments = arguments_of((torch.arange(6.0).reshape(2, 3).t(), 7), {"mask": torch.tensor([True, False])})

    sample = fresh_sample(arguments, seed=1)

    assert sample.args[0].stride() == (1, 3)
    assert sample.args[1] == 7
    assert sample.kwargs["mask"].dtype is torch.bool
    assert not torch.equal(sample.args[0], arguments.args[0])


def test_values_stay_within_the_range_of_those_they_replace():
    sample = fresh_sample(arguments_of((torch.tensor([0.2, 0.9] * 50), torch.tensor([3, 11] * 50))), seed=1)

    assert 0.2 <= sample.args[0].min() <= sample.args[0].max() <= 0.9
    assert 3 <= sample.args[1].min() <= sample.args[1].max() <= 11
    assert len(sample.args[1].unique()) > 2


def test_the_same_seed_draws_the_same_sample_and_another_draws_another():
    arguments = arguments_of((torch.arange(5.0), torch.ones(3), torch.ones(2, dtype=torch.complex64)))

    one, same, other = (fresh_sample(arguments, seed) for seed in (1, 1, 2))

    assert all(torch.equal(*pair) for pair in zip(one.args, same.args, strict=True))
    assert not any(torch.equal(*pair) for pair in zip(one.args, other.args, strict=True))


def test_inputs_that_share_storage_still_do():
    base = torch.arange(6.0)

    one, other = fresh_sample(arguments_of((base[:4], base[2:])), seed=1).args

    assert torch.equal(one[2:], other[:2])


def test_expanded_empty_and_constant_integer_tensors_can_be_sampled():
    arguments = arguments_of(
        (torch.arange(3.0).expand(2, 3), torch.zeros(0), torch.tensor([4, 4]), torch.ones(2, device="meta"))
    )

    sample = fresh_sample(arguments, seed=1)

    assert sample.args[0].stride() == (0, 1)
    assert torch.equal(sample.args[2], torch.tensor([4, 4]))


def test_further_samples_hold_the_ends_of_the_range_and_the_values_where_functions_bend():
    floats, whole = torch.linspace(-3, 5, 64), torch.arange(2, 40)
    before = arguments_of((floats, whole))

    drawn = fresh_sample(before, 3).args

    assert {-3.0, 5.0, 0.0, 1.0, -1.0} <= set(drawn[0].tolist())
    assert any(value == 0 and str(value) == "-0.0" for value in drawn[0].tolist())
    assert {2, 39} <= set(drawn[1].tolist())
    assert drawn[1].min() == 2
