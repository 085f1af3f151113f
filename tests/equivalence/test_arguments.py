"""Each lane gets copies that share, stride and require what the caller's inputs do."""

from __future__ import annotations

import threading

import pytest
import torch

from pytest_fxgraph.equivalence.arguments import arguments_of, copy_arguments


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


def test_modules_among_the_inputs_are_handed_on_as_they_are():
    module = torch.nn.Linear(1, 1)

    assert copy_arguments(arguments_of((module,))).arguments.args[0] is module


def test_inputs_that_cannot_be_copied_are_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"cannot copy the inputs for each lane.*cannot pickle"):
        copy_arguments(arguments_of((threading.Lock(),)))
