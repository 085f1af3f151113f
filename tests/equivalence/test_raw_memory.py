"""Bytes are copied and compared by address."""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.raw_memory import copy_bytes, same_bytes


def test_bytes_are_the_same_once_they_are_copied_and_not_after_one_is_changed():
    one, other = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    assert not same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)

    copy_bytes(other.data_ptr(), one.data_ptr(), one.nbytes)
    assert other.tolist() == [0, 1, 2, 3, 4]
    assert same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)

    other[4] = 5
    assert not same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)
    assert same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes - 8)
