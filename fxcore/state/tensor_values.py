"""Copies of the values of many tensors, to find writes to the tensors and to write the old values back."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Collection, Iterable, Iterator

import torch

from fxcore.state.storage import (
    ORDINARY,
    has_all_memory,
    has_storage,
    has_values,
    is_plain,
    storage_of,
    wrapped_tensors,
)

_libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
_memcmp = _libc.memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int


def same_bytes(expected: int, obtained: int, size: int) -> bool:
    """Return whether `size` bytes at two addresses are equal; the caller keeps both memories alive."""
    return not _memcmp(expected, obtained, size)


def copy_bytes(destination: int, source: int, size: int) -> None:
    """Copy `size` bytes from one address to another; the caller keeps both memories alive."""
    ctypes.memmove(destination, source, size)


_LARGE_PAGE = 2 << 20
# A larger buffer goes back to the system, because later tests may need the memory.
_MOST_KEPT = 512 << 20


class BufferPool:
    """Memory for snapshots; keeps one returned buffer, because touching new memory costs more than copying into it."""

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []  # at most one; a list's pop() cannot lend one buffer to two threads

    def take(self, size: int) -> torch.Tensor:
        """Lend a buffer, a tensor of at least `size` bytes. The buffer has one owner until it is given back."""
        try:
            buffer = self._free.pop()
        except IndexError:
            return _allocate(size)
        return buffer if buffer.numel() >= size else _allocate(size)

    def give_back(self, buffer: torch.Tensor) -> None:
        """Take a buffer back; the caller does not use the buffer any more."""
        if not self._free and buffer.numel() <= _MOST_KEPT:
            self._free.append(buffer)


def _allocate(size: int) -> torch.Tensor:
    """Allocate large pages where the system has them: one page fault replaces 512."""
    if size >= _LARGE_PAGE and sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            pages.madvise(mmap.MADV_HUGEPAGE)
            return torch.frombuffer(pages, dtype=torch.uint8)  # owns the pages, and frees them at its end
        except OSError:
            pass  # a system without large pages
    return torch.empty(size, dtype=torch.uint8, device="cpu")


_ALIGNMENT = 64


class ValueSnapshot:
    """Copies of the values of some tensors. The id() of a tensor identifies it."""

    def __init__(
        self, tensors: Iterable[torch.Tensor], buffer_pool: BufferPool | None = None, not_copied: Collection[int] = ()
    ) -> None:
        """Copy the values into a buffer of `buffer_pool`; release() gives the buffer back.

        A tensor whose id is in `not_copied` gets only its memory back, not the values in the memory.
        """
        self._buffer_pool = buffer_pool or BufferPool()
        self._dense: dict[int, _DenseMemory] = {}
        others: dict[int, _Memory] = {}
        copies: list[_DenseCopy] = []
        size = 0
        for tensor in tensors:
            alias = tensor.detach()
            is_copied = id(tensor) not in not_copied
            if is_copied and not has_all_memory(alias):
                continue  # sharded training frees memory for a while, and then there are no values to copy
            if not _is_dense_on_cpu(alias):
                others[id(tensor)] = _copy_of(tensor, alias) if is_copied else _Memory(tensor, alias)
            elif is_copied:
                self._dense[id(tensor)] = saved = _DenseCopy(tensor, alias, size)
                copies.append(saved)
                size += -(-saved.size // _ALIGNMENT) * _ALIGNMENT
            else:
                self._dense[id(tensor)] = _DenseMemory(tensor, alias)
        self._saved: dict[int, _Memory] = {**self._dense, **others}
        self._buffer = self._buffer_pool.take(size)
        start = self._buffer.data_ptr()
        for saved in copies:
            saved.copied_to += start
            copy_bytes(saved.copied_to, saved.address, saved.size)
        self._not_copied: dict[int, list[int]] | None = None  # keys by storage
        self._has_uncounted = any(saved.tensor.is_inference() for saved in self._saved.values())
        self._note_versions()

    def release(self) -> None:
        """Give the buffer back; afterwards the snapshot can neither compare nor restore."""
        self._dense.clear()
        self._saved.clear()
        self._buffer_pool.give_back(self._buffer)

    def changed(self, *, trust_versions: bool = False) -> set[int]:
        """Return the ids of the tensors with other values.

        With `trust_versions`, read only the tensors with a new version or other memory. A write through `.data` or
        numpy does not change the version, and is not found.
        """
        saved = self._saved
        if trust_versions:
            now = self._versions_now()
            if not self._has_uncounted and not self.has_new_data() and now == self._versions:
                return set()
            versions = zip(saved.items(), now, self._versions, strict=True)
            saved = {
                key: each
                for (key, each), version, before in versions
                if version is None or version != before or each.has_new_data()
            }
        return {key for key, each in saved.items() if each.has_changed()}

    def copy_before_write(self, storage: int) -> None:
        """Copy the values of the tensors in a storage, given as `storage_of` gives it, that have no copy yet."""
        if self._not_copied is None:
            self._not_copied = {}
            for key, saved in self._saved.items():
                if type(saved) in (_Memory, _DenseMemory) and has_storage(saved.tensor):
                    self._not_copied.setdefault(storage_of(saved.alias), []).append(key)
        for key in self._not_copied.pop(storage, ()):
            saved = self._saved[key]
            self._saved[key] = _ClonedCopy(saved.tensor, saved.alias)

    def has_new_version(self, key: int) -> bool:
        """Return whether torch counted a write to a tensor; True if torch never counts the tensor's writes."""
        if key not in self._saved:
            return False
        before, now = self._versions[list(self._saved).index(key)], _version_of(self._saved[key].tensor)
        return now is None or now != before

    def changed_strides(self) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Yield the id, the old and the new strides of each tensor with its old shape and other strides."""
        for key, saved in self._saved.items():
            before, now = saved.alias, saved.tensor
            if saved.has_new_data() and _shape(before) == _shape(now) and _strides(before) != _strides(now):
                yield key, _strides(before), _strides(now)

    def restore(self, changed: set[int]) -> None:
        """Write the old values into the tensors with these ids, and give every tensor its old memory back."""
        has_new_data = self.has_new_data()
        if not changed and not has_new_data:
            self._versions = self._versions_now()
            return
        for key, saved in self._saved.items():
            if key in changed or (has_new_data and key in self._dense):
                saved.restore()
        self._note_versions()

    def has_new_data(self) -> bool:
        """Return whether a tensor has other memory than before; asks only tensors that are dense on the CPU."""
        return self._addresses_now() != self._addresses

    def _note_versions(self) -> None:
        """Note the present versions and addresses, to compare later ones with them."""
        self._versions, self._addresses = self._versions_now(), self._addresses_now()

    def _versions_now(self) -> list[int | None]:
        if self._has_uncounted:
            return [_version_of(saved.tensor) for saved in self._saved.values()]
        return [saved.tensor._version for saved in self._saved.values()]

    def _addresses_now(self) -> list[int]:
        return [saved.tensor.data_ptr() for saved in self._dense.values()]


class _Memory:
    """A tensor and an alias that keeps the tensor's memory and the view of the memory."""

    __slots__ = ("alias", "tensor")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor) -> None:
        self.tensor, self.alias = tensor, alias

    def has_new_data(self) -> bool:
        """Return whether the tensor has another shape, dtype, layout, device, strides or address than before."""
        return _facts(self.tensor) != _facts(self.alias)

    def has_changed(self) -> bool:
        """Return whether the tensor's values changed."""
        return self.has_new_data()

    def restore(self) -> None:
        """Give the tensor its memory back."""
        if self.has_new_data():
            self.tensor.data = self.alias


class _DenseMemory(_Memory):
    """A tensor that is dense on the CPU, and its address."""

    __slots__ = ("address",)

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor) -> None:
        super().__init__(tensor, alias)
        self.address = alias.data_ptr()

    def has_new_data(self) -> bool:
        now, alias = self.tensor, self.alias
        return (now.data_ptr(), now.shape, now.stride(), now.dtype) != (
            self.address, alias.shape, alias.stride(), alias.dtype)  # fmt: skip

    def restore(self) -> None:
        """Give the tensor its memory back."""
        if self.has_new_data():
            _grow_storage(self.alias)
            self.tensor.data = self.alias
            self.address = self.alias.data_ptr()


class _DenseCopy(_DenseMemory):
    """A tensor that is dense on the CPU, and the address of the copy of its bytes."""

    __slots__ = ("copied_to", "size")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor, copied_to: int) -> None:
        super().__init__(tensor, alias)
        self.size, self.copied_to = alias.nbytes, copied_to

    def has_changed(self) -> bool:
        if not self.has_new_data():
            return not same_bytes(self.address, self.copied_to, self.size)
        if not has_all_memory(self.tensor):
            return True
        before = torch.empty_like(self.alias)  # dense, and thus with the same strides
        copy_bytes(before.data_ptr(), self.copied_to, self.size)
        return not _equal(before, self.tensor.detach())

    def restore(self) -> None:
        """Give the tensor its memory back, and write the old values into the memory."""
        super().restore()
        copy_bytes(self.address, self.copied_to, self.size)


class _ClonedCopy(_Memory):
    """A tensor of any other kind, and a clone of the tensor."""

    __slots__ = ("_value",)

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor) -> None:
        super().__init__(tensor, alias)
        self._value = alias.clone()

    def has_changed(self) -> bool:
        return not _equal(self._value, self.tensor.detach())

    def restore(self) -> None:
        """Write the old values into the tensor."""
        # Only inference mode can write to a tensor of inference mode.
        with torch.inference_mode(self.tensor.is_inference()), torch.no_grad():
            if self.has_new_data():
                is_view = is_plain(self.alias) and has_all_memory(self.alias)
                self.tensor.data = self.alias if is_view else self._value.clone()
                if not is_view:
                    return
            target, value = self.tensor, self._value
            if is_plain(self.alias):  # copy_() refuses several elements in one place of memory
                for dim, stride in enumerate(self.alias.stride()):
                    if stride == 0 and self.alias.size(dim) > 1:
                        target, value = target.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
            target.copy_(value)  # a detached sparse tensor is another tensor, so the tensor itself is written


class _WrappedCopy(_Memory):
    """A tensor that holds others, as quantized tensors do, with copies of the parts: few operators know the whole."""

    __slots__ = ("_parts",)

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor, tensor)  # shape and strides are fixed
        self._parts = {name: _copy_of(part, part.detach()) for name, part in wrapped_tensors(tensor).items()}

    def has_new_data(self) -> bool:
        return self._has_other_parts() or any(part.has_new_data() for part in self._parts.values())

    def has_changed(self) -> bool:
        return self._has_other_parts() or any(part.has_changed() for part in self._parts.values())

    def _has_other_parts(self) -> bool:
        return any(getattr(self.tensor, name) is not part.tensor for name, part in self._parts.items())

    def restore(self) -> None:
        """Put the old parts back into the tensor, with their values."""
        for name, part in self._parts.items():
            if getattr(self.tensor, name) is not part.tensor:
                setattr(self.tensor, name, part.tensor)
            part.restore()


def _copy_of(tensor: torch.Tensor, alias: torch.Tensor) -> _Memory:
    return _WrappedCopy(tensor) if wrapped_tensors(tensor) else _ClonedCopy(tensor, alias)


def _is_dense_on_cpu(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's elements fill one stretch of the CPU's memory, in any order."""
    if not is_plain(tensor) or not tensor.is_cpu:
        return False
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return torch's count of writes; None for a tensor of inference mode, because torch does not count there."""
    return None if tensor.is_inference() else tensor._version


def _grow_storage(tensor: torch.Tensor) -> None:
    """Give a storage that was made smaller the size that its tensor needs."""
    storage = tensor.untyped_storage()
    needed = int(tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    if storage.nbytes() < needed:
        storage.resize_(needed)


def _equal(value: torch.Tensor, now: torch.Tensor) -> bool:
    if (_shape(value), value.dtype, value.layout, value.device) != (_shape(now), now.dtype, now.layout, now.device):
        return False
    if not has_values(value):
        return True
    if value.is_nested:
        return all(map(_equal, value.unbind(), now.unbind()))
    if value.layout is not torch.strided:
        value, now = value.to_dense(), now.to_dense()
    return torch.equal(_bits(value), _bits(now))


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    address = tensor.data_ptr() if type(tensor) in ORDINARY and tensor.layout is torch.strided else None
    return _shape(tensor), tensor.dtype, tensor.layout, tensor.device, _strides(tensor), address


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape; for a nested tensor, which may have no shape, the number of its parts."""
    return (tensor.size(0),) if tensor.is_nested else tuple(tensor.shape)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tensor.stride() if tensor.layout is torch.strided and not tensor.is_nested else ()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor. NaN equals itself there."""
    flat = tensor.contiguous().resolve_conj().resolve_neg().reshape(-1)
    return (flat.int_repr() if flat.is_quantized else flat).view(torch.uint8)
