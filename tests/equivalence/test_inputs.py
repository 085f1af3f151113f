"""Each run gets copies that share, stride and require what the caller's inputs do."""

from __future__ import annotations

import threading

import pytest
import torch

from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of, copy_arguments, fresh_sample


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


def test_only_a_tensor_with_room_for_others_too_gets_the_ends_of_its_range():
    enough, too_few = torch.linspace(2, 3, 4), torch.linspace(2, 3, 3)

    drawn = fresh_sample(arguments_of((enough, too_few)), 3).args

    assert {2.0, 3.0} <= set(drawn[0].tolist())
    assert not {2.0, 3.0} & set(drawn[1].tolist())


def test_a_lone_tensor_is_one_argument():
    x = torch.ones(2)

    assert arguments_of(x).args[0] is x


@pytest.mark.parametrize("wrong", [[torch.ones(2)], {"x": 1}, None, 3])
def test_anything_but_a_tuple_or_a_tensor_is_refused(wrong):
    with pytest.raises(TypeError, match="expected a tuple of positional arguments or a lone tensor"):
        arguments_of(wrong)


def test_kwargs_that_are_no_mapping_are_refused():
    with pytest.raises(TypeError, match="kwargs: expected names and values, got list"):
        arguments_of((), [1])
    with pytest.raises(TypeError, match="kwargs: expected names and values, got dict; write kwargs="):
        arguments_of((), {1: torch.ones(1)})
    assert arguments_of((), {}) == arguments_of(())


@pytest.mark.parametrize("with_gradients", [False, True])
def test_copies_share_storage_as_the_inputs_do(with_gradients):
    base = torch.arange(6.0)
    arguments = arguments_of((base[:4], {"rest": base[2:]}, base, base))

    first, second, third, fourth = copy_arguments(arguments, with_gradients=with_gradients).arguments.args
    with torch.no_grad():
        first[2] = 100

    assert second["rest"][0] == 100
    assert third[2] == 100
    assert third is fourth
    assert base[2] == 2


@pytest.mark.parametrize("with_gradients", [False, True])
@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(3).expand(2, 3),
        torch.arange(10.0)[1::3],
        torch.zeros(0, 3),
        torch.tensor(1.0),
        torch.arange(4).bool(),
        torch.ones(2, 3, device="meta"),
    ],
)
def test_copies_keep_values_strides_and_dtype(tensor, with_gradients):
    copied = copy_arguments(arguments_of((tensor,)), with_gradients=with_gradients).arguments.args[0]

    assert copied.stride() == tensor.stride()
    assert copied.dtype == tensor.dtype
    assert copied.device == tensor.device
    assert tensor.is_meta or torch.equal(copied, tensor)


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation functions.*are deprecated")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(2, dtype=torch.complex64).mul(1j).conj(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        lambda: torch.nn.Parameter(torch.ones(2)),
    ],
)
def test_unusual_tensors_are_copied_as_what_they_are(make):
    tensor = make()

    copied = copy_arguments(arguments_of((tensor,))).arguments.args[0]

    assert copied is not tensor
    assert type(copied) is type(tensor)
    assert copied.layout == tensor.layout
    assert copied.is_conj() == tensor.is_conj()
    assert copied.requires_grad == tensor.requires_grad
    dense, copied_dense = (each.dequantize() if each.is_quantized else each.detach() for each in (tensor, copied))
    assert torch.equal(dense.to_dense().resolve_conj(), copied_dense.to_dense().resolve_conj())


def test_requires_grad_is_kept_and_the_copy_is_a_leaf():
    copied = copy_arguments(arguments_of((torch.ones(2, requires_grad=True) * 2,))).arguments.args[0]

    assert copied.requires_grad
    assert copied.is_leaf


def test_with_gradients_an_input_may_be_changed_in_place():
    copied = copy_arguments(arguments_of((torch.ones(3),)), with_gradients=True)
    x = copied.arguments.args[0]
    x.mul_(3)
    leaf, _ = copied.leaves["input 0"]

    (gradient,) = torch.autograd.grad(x.sum(), [leaf])

    assert torch.equal(gradient, torch.full((3,), 3.0))


def test_views_of_two_dtypes_share_no_leaf_and_still_memory():
    numbers = torch.ones(2, dtype=torch.complex64)
    arguments = arguments_of((numbers, torch.view_as_real(numbers)))

    copied = copy_arguments(arguments, with_gradients=True)

    copied.arguments.args[1][0, 0] = 5
    assert copied.arguments.args[0][0] == 5
    assert copied.leaves == {}
    assert set(copy_arguments(arguments_of((numbers, torch.arange(2))), with_gradients=True).leaves) == {"input 0"}


def test_each_kind_of_tensor_is_drawn_in_its_range():
    inputs = {
        "flags": torch.ones(64).bool(),
        "endless": torch.tensor([1.0, float("inf")] * 32),
        "open": torch.tensor([float("-inf"), 1.0] * 32),
        "complex": torch.full((64,), 3 + 4j),
        "bytes": torch.tensor([5, 7] * 32, dtype=torch.uint16),
        "whole": torch.tensor([3, 3, 3]),
        "bits": torch.arange(4, dtype=torch.uint8).view(torch.bits8),
    }

    drawn = fresh_sample(arguments_of((), inputs), 0, is_inner=True).kwargs

    assert set(drawn["flags"].tolist()) == {True, False}
    assert all(
        drawn[name].isfinite().all() and drawn[name].min() < 0 < drawn[name].max() for name in ("endless", "open")
    )
    assert 5 < drawn["complex"].abs().max() < 25
    assert set(drawn["bytes"].tolist()) == {5, 6, 7}
    assert drawn["whole"].tolist() == [3, 3, 3]
    assert drawn["bits"].view(torch.uint8).tolist() == [0, 1, 2, 3]


def test_modules_among_the_inputs_are_handed_on_as_they_are():
    module = torch.nn.Linear(1, 1)

    assert copy_arguments(arguments_of((module,))).arguments.args[0] is module


def test_inputs_that_cannot_be_copied_are_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"cannot copy the inputs for each run.*cannot pickle"):
        copy_arguments(arguments_of((threading.Lock(),)))


def test_inner_values_keep_away_from_the_ends():
    x = torch.linspace(-4, 4, 1000)

    (inner,) = fresh_sample(arguments_of(x), 0, is_inner=True).args

    assert -2 <= inner.min() < inner.max() <= 2


def test_copies_have_leaves_on_request_alone():
    given = Arguments((torch.ones(2), torch.ones(2).long()), {})

    assert copy_arguments(given).leaves == {}
    assert [*copy_arguments(given, with_gradients=True).leaves] == ["input 0"]


def test_tensors_without_values_of_their_own_are_passed_over():
    given = torch.eye(2).to_sparse(), torch.ones(2, device="meta"), torch.ones(0, 2), torch.arange(40.0)

    sparse, meta, empty, plain = fresh_sample(Arguments(given, {}), 1).args

    assert torch.equal(sparse.to_dense(), torch.eye(2))
    assert (meta.device.type, meta.shape, empty.shape) == ("meta", (2,), (0, 2))
    assert not torch.equal(plain, given[3])


def test_whole_numbers_are_drawn_up_to_the_largest():
    given = Arguments((torch.tensor([3, 5, 4]),), {})

    drawn = torch.cat([fresh_sample(given, seed).args[0] for seed in range(20)])

    assert set(drawn.tolist()) == {3, 4, 5}


@pytest.mark.parametrize("others", [[], [0, 1], [-(2**63)] * 20])
def test_the_largest_number_of_64_bits_is_drawn_too(others):
    largest = 2**63 - 1
    given = Arguments((torch.tensor([*others, *[largest] * 3]),), {})

    (drawn,) = fresh_sample(given, 0).args

    least = min(others, default=largest)
    assert all(least <= each <= largest for each in drawn.tolist())
    assert bool(others) or drawn.tolist() == [largest] * 3
    assert len(others) < 20 or {least, largest, 0} <= {*drawn.tolist()}


@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (-2.0, 0.0), (-1.5, 1.5)])
def test_both_zeros_are_among_the_values_of_a_range_that_holds_them(low, high):
    (drawn,) = fresh_sample(Arguments((torch.linspace(low, high, 100),), {}), 0).args

    zeros = drawn[drawn == 0]
    assert {*zeros.signbit().tolist()} == {True, False}
