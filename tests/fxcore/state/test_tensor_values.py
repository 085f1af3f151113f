"""Values written in whatever way are noticed, and memory that was exchanged is given back."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable

import pytest
import torch

from fxcore.state import tensor_values
from fxcore.state.storage import storage_of
from fxcore.state.tensor_values import BufferPool, ValueSnapshot, copy_bytes, same_bytes


class Pair(torch.Tensor):
    """A tensor without a storage that wraps two others."""

    @staticmethod
    def __new__(cls, first, second):
        made = torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)
        made.first, made.second = first, second
        return made

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        return cls(args[0].first, args[0].second)  # `detach`, the only call of these tests

    def __tensor_flatten__(self):
        return ["first", "second"], None


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


class Sizes(BufferPool):
    """Notes the sizes of the buffers that it lends."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def take(self, size):
        self.sizes.append(size)
        return super().take(size)


def test_copies_begin_at_multiples_of_64_bytes():
    pool = Sizes()

    ValueSnapshot([torch.ones(1), torch.ones(16), torch.ones(17), torch.ones(12)[::2]], pool)
    ValueSnapshot([], pool)

    assert pool.sizes == [64 + 64 + 128, 0]


def test_one_buffer_is_kept_and_it_serves_up_to_its_size():
    pool = BufferPool()
    first, second = pool.take(100), pool.take(100)
    pool.give_back(first)
    pool.give_back(second)

    assert pool.take(100) is first
    assert pool.take(100) is not second
    pool.give_back(first)
    assert pool.take(101) is not first


def test_memory_that_was_freed_before_is_left_out_and_the_others_are_watched():
    freed, tensor = torch.ones(2), torch.ones(2)
    freed.untyped_storage().resize_(0)
    snapshot = ValueSnapshot([freed, tensor])

    tensor.add_(1)

    assert snapshot.changed() == {id(tensor)}
    assert not snapshot.has_new_version(id(freed))


def test_only_the_named_tensors_get_their_values_back_if_all_have_their_memory():
    named, other = torch.ones(2), torch.ones(2)
    snapshot = ValueSnapshot([named, other])
    named.add_(1)
    other.add_(1)

    snapshot.restore({id(named)})

    assert (named.tolist(), other.tolist()) == ([1, 1], [2, 2])


def test_an_unchanged_tensor_is_not_written_though_another_got_other_memory():
    exchanged, sparse, gaps = torch.ones(2), torch.eye(2).to_sparse(), torch.arange(6.0)[::2]
    snapshot = ValueSnapshot([exchanged, sparse, gaps])
    versions = sparse._version, gaps._version

    exchanged.data = torch.zeros(2)
    snapshot.restore(set())

    assert exchanged.tolist() == [1, 1]
    assert (sparse._version, gaps._version) == versions


@pytest.mark.parametrize("kind", ["parameter", "channels last", "channels last in 3d", "with gaps", "sparse"])
@pytest.mark.parametrize("is_copied", [True, False])
def test_a_tensor_gets_its_own_memory_back(kind, is_copied):
    tensor = KINDS[kind]()
    before, sparse = dense(tensor), tensor.layout is not torch.strided
    address = 0 if sparse else tensor.data_ptr()
    snapshot = ValueSnapshot([tensor], None, () if is_copied else {id(tensor)})

    tensor.data = (torch.eye(3) * 2).to_sparse() if sparse else torch.zeros_like(tensor)
    assert snapshot.has_new_data() == (kind not in ("with gaps", "sparse"))
    snapshot.restore({id(tensor)})

    if is_copied or not sparse:
        assert dense(tensor) == before
    assert sparse or tensor.data_ptr() == address
    assert not snapshot.has_new_data()
    assert snapshot.changed() == set() or (sparse and not is_copied)


def test_a_tensor_with_gaps_that_got_memory_of_the_same_form_has_changed():
    tensor = torch.arange(6.0)[::2]
    address = tensor.data_ptr()
    snapshot = ValueSnapshot([tensor], None, {id(tensor)})

    tensor.data = torch.arange(6.0)[::2]
    assert snapshot.changed() == {id(tensor)}
    snapshot.restore({id(tensor)})

    assert tensor.data_ptr() == address
    assert snapshot.changed() == set()


def test_a_tensor_with_gaps_whose_memory_was_freed_gets_its_values_in_new_memory():
    tensor = torch.arange(6.0)[::2]
    snapshot = ValueSnapshot([tensor])

    tensor.untyped_storage().resize_(0)
    tensor.data = torch.zeros(3)
    snapshot.restore({id(tensor)})

    assert dense(tensor) == ["0.0", "2.0", "4.0"]


def test_a_copy_is_made_of_what_has_none_right_before_a_write():
    base = torch.ones(4)
    copied, gaps, sparse = base[:2], base[::3], torch.eye(2).to_sparse()
    snapshot = ValueSnapshot([base, copied, gaps, sparse], None, {id(base), id(gaps), id(sparse)})
    copied.fill_(5)

    snapshot.copy_before_write(storage_of(base))
    snapshot.copy_before_write(storage_of(torch.ones(1)))
    base.add_(1)
    assert snapshot.changed() == {id(base), id(copied), id(gaps)}
    snapshot.restore({id(base), id(gaps)})
    assert base.tolist() == [5, 5, 1, 1]
    snapshot.copy_before_write(storage_of(base))
    snapshot.restore({id(copied)})

    assert base.tolist() == [1, 1, 1, 1]


def test_other_parts_of_a_tensor_that_wraps_some_are_found_without_a_counted_write():
    wrapped = Pair(torch.ones(2), torch.zeros(2))
    first = wrapped.first
    snapshot = ValueSnapshot([wrapped])
    assert snapshot.changed(trust_versions=True) == snapshot.changed() == set()

    wrapped.first = torch.ones(2)
    assert snapshot.changed() == {id(wrapped)}
    snapshot.restore({id(wrapped)})
    assert wrapped.first is first

    wrapped.second.data = torch.ones(2)
    assert snapshot.changed() == {id(wrapped)}
    snapshot.restore({id(wrapped)})
    assert wrapped.second.tolist() == [0, 0]


@pytest.mark.parametrize(
    "change",
    [lambda pair: setattr(pair, "first", torch.ones(2)), lambda pair: setattr(pair.first, "data", torch.ones(2))],
)
def test_parts_with_other_memory_are_read_beside_a_counted_write(change):
    wrapped, counted = Pair(torch.zeros(2), torch.zeros(2)), torch.ones(2)
    snapshot = ValueSnapshot([wrapped, counted])

    change(wrapped)
    counted.add_(1)

    assert snapshot.changed(trust_versions=True) == {id(wrapped), id(counted)}


def test_another_form_of_the_same_memory_is_told_by_its_strides():
    turned, cut, same = torch.arange(4.0).reshape(2, 2), torch.ones(2, 2), torch.ones(2)
    snapshot = ValueSnapshot([turned, cut, same])

    turned.t_()
    cut.resize_(1, 4)

    assert list(snapshot.changed_strides()) == [(id(turned), (2, 1), (1, 2))]


def test_memory_that_has_no_values_any_more_has_changed():
    tensor, freed = torch.ones(2), torch.ones(2)
    snapshot = ValueSnapshot([tensor])

    tensor.data = freed
    freed.untyped_storage().resize_(0)

    assert snapshot.changed() == {id(tensor)}


def test_a_tensor_with_gaps_gets_memory_and_values_back():
    tensor = torch.arange(6.0)[::2]
    old = tensor.detach()
    snapshot = ValueSnapshot([tensor])

    old.zero_()
    tensor.data = torch.zeros(3)
    snapshot.restore({id(tensor)})

    assert dense(tensor) == ["0.0", "2.0", "4.0"]


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_a_row_that_is_seen_often_is_put_back(shape):
    tensor = torch.arange(3.0).expand(shape)
    before = dense(tensor)
    snapshot = ValueSnapshot([tensor])

    zero(tensor)
    snapshot.restore({id(tensor)})

    assert dense(tensor) == before


def test_a_tensor_without_values_is_never_read():
    tensor = torch.ones(2, 3, device="meta")
    snapshot = ValueSnapshot([tensor])

    assert snapshot.changed() == set()
    tensor.add_(1)
    assert snapshot.changed() == set()
    tensor.t_()
    assert snapshot.changed() == {id(tensor)}


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_the_parts_of_a_nested_tensor_are_compared_and_put_back():
    tensor = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    snapshot = ValueSnapshot([tensor])

    assert snapshot.changed() == set()
    tensor.unbind()[1].zero_()
    assert snapshot.changed() == {id(tensor)}
    snapshot.restore({id(tensor)})

    assert [part.tolist() for part in tensor.unbind()] == [[1, 1], [1, 1, 1]]
