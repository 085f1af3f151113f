"""The memory behind a tensor is known and copied as it is."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fxcore.state.storage import (
    copy_tensor,
    flat_view,
    has_all_memory,
    has_storage,
    has_values,
    is_plain,
    is_readable,
    storage_of,
    wrapped_tensors,
)


def test_views_have_the_storage_of_their_base_and_copies_have_their_own():
    base = torch.zeros(4)

    assert storage_of(base[1:]) == storage_of(base)
    assert storage_of(copy_tensor(base)) != storage_of(base)


def test_a_copy_keeps_strides_and_offset_and_loses_the_gradient_history():
    tensor = torch.arange(6.0, requires_grad=True).reshape(2, 3).t()[1:]

    copied = copy_tensor(tensor)

    assert torch.equal(copied, tensor)
    assert (copied.stride(), copied.storage_offset()) == (tensor.stride(), tensor.storage_offset())
    assert copied.is_leaf
    assert copied.requires_grad


def test_all_elements_of_a_storage_can_be_seen_from_a_view_of_it():
    assert flat_view(torch.arange(4.0)[::2].untyped_storage(), torch.float32).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(("size", "is_there"), [(12, True), (8, False), (0, False)])
def test_memory_that_was_freed_is_missed(size, is_there):
    tensor = torch.arange(3.0)

    tensor.untyped_storage().resize_(size)

    assert has_all_memory(tensor) is is_there


@pytest.mark.parametrize(
    "tensor",
    [torch.nn.Parameter(torch.ones(2)), torch.eye(2).to_sparse(), torch.ones(2, dtype=torch.complex64).conj()],
    ids=["parameter", "sparse", "lazily conjugated"],
)
def test_a_subclass_another_layout_and_a_lazy_conjugate_are_not_plain(tensor):
    assert not is_plain(tensor)
    assert is_plain(torch.ones(2))


class Unreadable(torch.Tensor):
    """A tensor that raises at every question."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise ValueError(function)


class Pair(torch.Tensor):
    """A tensor without a storage that wraps two others and names a text among its parts."""

    @staticmethod
    def __new__(cls, first, second):
        made = torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)
        made.first, made.second, made.unit = first, second, "m"
        return made

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return cls(args[0].first, args[0].second)  # `detach`, the only call of these tests

    def __tensor_flatten__(self):
        return ["first", "second", "unit"], None


def nested():
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


TENSORS = {
    "plain": lambda: torch.ones(2, 3),
    "view": lambda: torch.ones(2, 3).t()[1:],
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "empty": lambda: torch.ones(0, 2),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "nested": nested,
    "negative": lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
    "conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.5, 0, torch.qint8),
    "meta": lambda: torch.ones(2, device="meta"),
    "pair": lambda: Pair(torch.ones(2), torch.zeros(2)),
}


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        (is_plain, {"plain", "view", "empty", "meta"}),
        (has_storage, set(TENSORS) - {"empty", "sparse", "nested"}),
        (has_values, set(TENSORS) - {"meta"}),
        (has_all_memory, set(TENSORS)),
        (is_readable, set(TENSORS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_sort_of_tensor_has_an_answer(question, yes):
    assert {name for name, make in TENSORS.items() if question(make())} == yes


def test_a_fake_tensor_has_no_values_and_an_unreadable_one_no_answers():
    with FakeTensorMode():
        assert not has_values(torch.ones(2))
    assert not is_readable(torch.ones(2).as_subclass(Unreadable))


@pytest.mark.parametrize(("bytes_there", "is_there"), [(24, True), (23, False)])
def test_a_view_needs_memory_up_to_its_last_element(bytes_there, is_there):
    views = [torch.arange(6.0).reshape(2, 3).t(), torch.arange(6.0)[3:], torch.arange(6.0)[1::2]]
    for view in views:
        view.untyped_storage().resize_(bytes_there)
    shorter = torch.arange(6.0).reshape(2, 3)[:, :2]
    shorter.untyped_storage().resize_(20)

    assert [has_all_memory(view) for view in views] == [is_there] * 3
    assert has_all_memory(shorter)


def test_the_tensors_that_a_tensor_wraps_are_its_parts():
    pair = Pair(torch.ones(2), torch.zeros(2))

    assert wrapped_tensors(pair) == {"first": pair.first, "second": pair.second}
    assert wrapped_tensors(torch.ones(2)) == wrapped_tensors(nested()) == {}
    assert wrapped_tensors(torch.nn.Parameter(torch.ones(2))) == {}


def test_a_single_element_has_a_storage_that_may_be_freed():
    for tensor in (torch.tensor(1), torch.ones(1), torch.nn.Parameter(torch.ones(1))):
        assert has_storage(tensor)
        assert has_all_memory(tensor)
        tensor.untyped_storage().resize_(0)
        assert not has_all_memory(tensor)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: torch.nn.Parameter(torch.ones(2), requires_grad=False),
        lambda: torch.tensor([1 + 2j, 3j]).conj(),
        lambda: torch.tensor([1 + 2j, 3j]).to_sparse(),
        lambda: torch.eye(2).to_sparse().requires_grad_(),
        lambda: torch.ones(2, requires_grad=True),
        lambda: torch.ones(0, 2),
    ],
)
def test_a_copy_is_of_the_same_kind(make):
    tensor = make()

    copied = copy_tensor(tensor)

    def facts(each):
        return type(each), each.requires_grad, each.is_conj(), each.is_neg(), each.layout, each.dtype, each.shape

    assert facts(copied) == facts(tensor)
    assert copied.detach().to_dense().tolist() == tensor.detach().to_dense().tolist()
    assert copied is not tensor


def test_a_nested_tensor_of_a_class_of_its_own_is_a_tensor_without_parts():
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)

    assert type(jagged) is not torch.Tensor
    assert wrapped_tensors(jagged) == {}


def test_a_parameter_may_have_lost_its_memory():
    parameter = torch.nn.Parameter(torch.ones(3))
    assert has_all_memory(parameter)

    parameter.untyped_storage().resize_(0)

    assert not has_all_memory(parameter)


def test_a_copy_of_a_complex_tensor_of_a_class_is_conjugated_only_if_the_tensor_is():
    class Own(torch.Tensor):
        pass

    tensor = torch.tensor([1 + 2j]).as_subclass(Own)

    for each in (tensor, tensor.conj()):
        copied = copy_tensor(each)
        assert copied.is_conj() == each.is_conj()
        assert copied.tolist() == each.tolist()
