"""Values written in whatever way are noticed, and memory that was exchanged is given back."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable

import pytest
import torch

from fxcore.state import tensor_values
from fxcore.state.tensor_values import BufferPool, ValueSnapshot, copy_bytes, same_bytes


def test_bytes_are_the_same_once_they_are_copied_and_not_after_one_is_changed():
    one, other = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    assert not same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)

    copy_bytes(other.data_ptr(), one.data_ptr(), one.nbytes)
    assert other.tolist() == [0, 1, 2, 3, 4]
    assert same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)

    other[4] = 5
    assert not same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes)
    assert same_bytes(one.data_ptr(), other.data_ptr(), one.nbytes - 8)


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "parameter": lambda: torch.nn.Parameter(torch.arange(6.0)),
    "channels last": lambda: torch.arange(48.0).reshape(1, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    "channels last in 3d": lambda: torch.rand(1, 2, 2, 2, 2).contiguous(memory_format=torch.channels_last_3d),
    "with gaps": lambda: torch.arange(12.0)[::2],
    "one row seen often": lambda: torch.arange(3.0).expand(4, 3),
    "bool": lambda: torch.tensor([True, False, True]),
    "half": lambda: torch.arange(3).to(torch.bfloat16),
    "complex, conjugated lazily": lambda: torch.arange(3).to(torch.complex64).conj(),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "nothing": lambda: torch.zeros(0, 3),
    "one number": lambda: torch.tensor(3),
    "not a number": lambda: torch.full((3,), float("nan")),
}


def dense(tensor: torch.Tensor) -> list[str]:
    whole = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
    return [str(value) for value in whole.flatten().tolist()]


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_tensor_of_every_kind_is_left_alone_while_nothing_changes(make):
    tensor = make()
    snapshot = ValueSnapshot([tensor])

    assert snapshot.changed() == snapshot.changed(trust_versions=True) == set()
    assert not snapshot.has_new_data()


def zero(tensor: torch.Tensor) -> None:
    """Write without a new version."""
    if tensor.layout is not torch.strided:
        tensor._values().zero_()
    else:
        (tensor.data[0] if 0 in tensor.stride() else tensor.data).zero_()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nothing"])
def test_a_write_to_a_tensor_of_every_kind_is_noticed_and_undone(kind):
    tensor = KINDS[kind]()
    before = dense(tensor)
    snapshot = ValueSnapshot([tensor, torch.ones(2)])

    zero(tensor)
    assert snapshot.changed() == {id(tensor)}
    if kind != "one row seen often":
        snapshot.restore({id(tensor)})
        assert dense(tensor) == before
        assert snapshot.changed() == set()


def test_a_write_that_torch_counts_is_told_from_one_that_it_does_not():
    counted, hidden, untouched = torch.ones(2), torch.ones(2), torch.ones(2)
    snapshot = ValueSnapshot([counted, hidden, untouched])

    counted.add_(1)
    zero(hidden)

    assert snapshot.changed(trust_versions=True) == {id(counted)}
    assert snapshot.changed() == {id(counted), id(hidden)}
    assert snapshot.has_new_version(id(counted))
    assert not snapshot.has_new_version(id(hidden))


def test_tensors_of_inference_mode_whose_writes_nobody_counts_are_read():
    with torch.inference_mode():
        tensor = torch.ones(2)
        snapshot = ValueSnapshot([tensor])
        tensor.add_(1)

        assert snapshot.changed(trust_versions=True) == {id(tensor)}
    snapshot.restore({id(tensor)})
    assert dense(tensor) == ["1.0", "1.0"]


def test_memory_that_was_exchanged_is_looked_at_again_and_the_other_is_left_alone():
    tensor, other = torch.ones(2), torch.zeros(2)
    view, address = tensor[:1], tensor.data_ptr()
    snapshot = ValueSnapshot([tensor])

    tensor.data = other
    assert snapshot.has_new_data()
    assert snapshot.changed() == snapshot.changed(trust_versions=True) == {id(tensor)}
    snapshot.restore(snapshot.changed())

    assert tensor.data_ptr() == address
    assert dense(tensor) == ["1.0", "1.0"]
    assert dense(view) == ["1.0"]
    assert dense(other) == ["0.0", "0.0"]


@pytest.mark.parametrize("size", [0, 4000])
def test_memory_that_was_freed_or_grew_is_given_back(size):
    tensor = torch.arange(3.0)
    snapshot = ValueSnapshot([tensor])

    tensor.untyped_storage().resize_(size)
    snapshot.restore(snapshot.changed())

    assert dense(tensor) == ["0.0", "1.0", "2.0"]
    assert snapshot.changed() == set()


@pytest.mark.parametrize(
    "change", [lambda tensor: tensor.data.t_(), lambda tensor: tensor.resize_(1), lambda tensor: tensor.t_()]
)
def test_a_tensor_that_was_turned_or_cut_looks_as_before(change):
    tensor = torch.arange(6.0).reshape(2, 3)
    snapshot = ValueSnapshot([tensor])

    change(tensor)
    snapshot.restore(snapshot.changed())

    assert torch.equal(tensor, torch.arange(6.0).reshape(2, 3))
    assert snapshot.changed() == set()


def test_one_snapshot_after_another_uses_the_same_memory():
    pool = BufferPool()
    first = ValueSnapshot([torch.ones(100)], pool)
    kept = first._buffer
    first.release()

    second = ValueSnapshot([torch.zeros(10)], pool)

    assert second._buffer is kept
    assert second.changed() == set()


def test_memory_that_is_lent_is_lent_to_nobody_else():
    pool = BufferPool()
    one, other = pool.take(100), pool.take(100)

    assert one.data_ptr() != other.data_ptr()
    pool.give_back(one)
    assert pool.take(50) is one
    assert pool.take(5 << 20).numel() >= 5 << 20


def test_a_buffer_is_kept_up_to_the_largest_size(monkeypatch):
    monkeypatch.setattr(tensor_values, "_MOST_KEPT", 100)
    pool = BufferPool()
    kept, too_large = pool.take(100), pool.take(101)

    pool.give_back(too_large)
    pool.give_back(kept)

    assert pool.take(10) is kept


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"), reason="large pages are Linux's")
@pytest.mark.parametrize(
    ("size", "platform", "is_large"),
    [
        (tensor_values._LARGE_PAGE, "linux", True),
        (tensor_values._LARGE_PAGE - 1, "linux", False),
        (tensor_values._LARGE_PAGE, "darwin", False),
    ],
)
def test_large_pages_are_asked_for_where_the_system_has_them(monkeypatch, size, platform, is_large):
    made = []

    class Pages(mmap.mmap):
        def madvise(self, *advice):
            made.append((len(self), *advice))

    monkeypatch.setattr(mmap, "mmap", Pages)
    monkeypatch.setattr(sys, "platform", platform)

    assert BufferPool().take(size).numel() == size
    assert made == ([(size, mmap.MADV_HUGEPAGE)] if is_large else [])


def test_a_system_without_large_pages_gives_memory_too(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)

    assert BufferPool().take(tensor_values._LARGE_PAGE).numel() == tensor_values._LARGE_PAGE
