"""The memory behind a tensor is known and copied as it is."""

from __future__ import annotations

import pytest
import torch

from fxcore.state.storage import copy_tensor, flat_view, has_all_memory, is_plain, storage_of


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
