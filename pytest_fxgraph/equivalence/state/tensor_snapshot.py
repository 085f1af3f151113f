"""Copies of the values of many tensors: to find out what was written to them, and to write the old values back."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Iterator

import torch

from pytest_fxgraph.equivalence.state.storage import has_all_memory, has_values, is_plain, wrapped_tensors

_libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
_memcmp = _libc.memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int


def same_bytes(expected: int, obtained: int, size: int) -> bool:
    """Tell whether `size` bytes at two addresses are equal; the caller keeps both memories alive."""
    return not _memcmp(expected, obtained, size)


def copy_bytes(destination: int, source: int, size: int) -> None:
    """Copy `size` bytes from one address to another; the caller keeps both memories alive."""
    ctypes.memmove(destination, source, size)


_LARGE_PAGE = 2 << 20
# A larger buffer is returned to the system: later tests may need the memory.
_MOST_KEPT = 512 << 20


class BufferPool:
    """Lends buffers and keeps one that comes back: touching new memory costs more than copying into it."""

    def __init__(self) -> None:
        self._free: list[torch.Tensor] = []  # one or none; a list's pop() cannot lend a buffer to two threads

    def take(self, size: int) -> torch.Tensor:
        """Lend a buffer, a tensor of bytes of shape (n,) with n >= size; it has one owner until it is given back."""
        try:
            buffer = self._free.pop()
        except IndexError:
            return _allocate(size)
        return buffer if buffer.numel() >= size else _allocate(size)

    def give_back(self, buffer: torch.Tensor) -> None:
        """Take a buffer back; the caller does not use it any more."""
        if not self._free and buffer.numel() <= _MOST_KEPT:
            self._free.append(buffer)


def _allocate(size: int) -> torch.Tensor:
    """Allocate in large pages where the system has them: one page fault takes the place of 512."""
    if size >= _LARGE_PAGE and sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            pages.madvise(mmap.MADV_HUGEPAGE)
            return torch.frombuffer(pages, dtype=torch.uint8)  # keeps the pages, and gives them back when it dies
        except OSError:
            pass  # a system without large pages
    return torch.empty(size, dtype=torch.uint8, device="cpu")


_ALIGNMENT = 64


class ValueSnapshot:
    """Copies of the values of some tensors; a tensor is identified by its id()."""

    def __init__(self, tensors: Iterable[torch.Tensor], buffer_pool: BufferPool | None = None) -> None:
        """Copy the values, into a buffer of `buffer_pool` if one is given; release() gives that back."""
        self._buffer_pool = buffer_pool or BufferPool()
        self._contiguous: dict[int, _ContiguousCopy] = {}
        self._cloned: dict[int, _ClonedCopy] = {}
        size = 0
        for tensor in tensors:
            alias = tensor.detach()
            if not has_all_memory(alias):
                continue  # freed for a while, as sharded training does: there is nothing to copy
            if _is_dense_on_cpu(alias):
                self._contiguous[id(tensor)] = saved = _ContiguousCopy(tensor, alias, size)
                size += -(-saved.size // _ALIGNMENT) * _ALIGNMENT
            else:
                self._cloned[id(tensor)] = _copy_of(tensor, alias)
        self._buffer = self._buffer_pool.take(size)
        start = self._buffer.data_ptr()
        for saved in self._contiguous.values():
            saved.copied_to += start
            copy_bytes(saved.copied_to, saved.address, saved.size)
        self._has_uncounted = any(tensor.is_inference() for tensor in self._tensors())
        self._note_versions()

    def release(self) -> None:
        """Give the buffer back; afterwards nothing can be compared or restored."""
        self._contiguous.clear()
        self._buffer_pool.give_back(self._buffer)

    def __contains__(self, key: int) -> bool:
        return key in self._contiguous or key in self._cloned

    def changed(self) -> set[int]:
        """Return the ids of the tensors whose values changed; reads all of them."""
        found = {key for key, saved in self._cloned.items() if saved.has_changed()}
        if self.has_new_data():
            return found | {key for key, saved in self._contiguous.items() if saved.has_changed()}
        return found | {
            key
            for key, saved in self._contiguous.items()
            if saved.has_new_data() or not same_bytes(saved.address, saved.copied_to, saved.size)
        }

    def changed_by_version(self) -> set[int]:
        """Return the ids of the changed tensors among those with a new version or other memory; reads only these.

        A write through `.data` or numpy does not change the version and is not found.
        """
        if not self._has_uncounted and not self.has_new_data() and self._versions_now() == self._versions:
            return set()
        saved: dict[int, _ContiguousCopy | _ClonedCopy] = {**self._contiguous, **self._cloned}
        return {
            key
            for key, version in zip(saved, self._versions, strict=True)
            if (version is None or _version_of(saved[key].tensor) != version or saved[key].has_new_data())
            and saved[key].has_changed()
        }

    def has_new_version(self, key: int) -> bool:
        """Tell whether torch counted a write to a tensor; True also for one whose writes it does not count."""
        for tensor, version in zip(self._tensors(), self._versions, strict=True):
            if id(tensor) == key:
                return version is None or _version_of(tensor) != version
        return False

    def changed_strides(self) -> Iterator[tuple[int, str]]:
        """Yield the ids of the tensors that have the same shape and other strides, with what is to be said of them."""
        copies: dict[int, _ContiguousCopy | _ClonedCopy] = {**self._contiguous, **self._cloned}
        for key, saved in copies.items():
            before, now = saved.alias, saved.tensor
            if saved.has_new_data() and _shape(before) == _shape(now) and _strides(before) != _strides(now):
                yield key, f"has strides {_strides(now)} now, and had {_strides(before)}"

    def restore(self, changed: set[int]) -> None:
        """Write the old values into the tensors with these ids, and give every tensor its old memory back."""
        for key in self._contiguous if self.has_new_data() else changed & self._contiguous.keys():
            self._contiguous[key].restore()
        for key in changed & self._cloned.keys():
            self._cloned[key].restore()
        self._note_versions()

    def has_new_data(self) -> bool:
        """Tell whether a tensor has other memory than before; asks only those that are dense on the CPU."""
        return self._addresses_now() != self._addresses

    def _note_versions(self) -> None:
        """Note the versions and addresses of now; later ones are compared with them."""
        self._versions, self._addresses = self._versions_now(), self._addresses_now()

    def _versions_now(self) -> list[int | None]:
        if self._has_uncounted:
            return [_version_of(tensor) for tensor in self._tensors()]
        return [tensor._version for tensor in self._tensors()]

    def _addresses_now(self) -> list[int]:
        return [saved.tensor.data_ptr() for saved in self._contiguous.values()]

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from (saved.tensor for saved in self._contiguous.values())
        yield from (saved.tensor for saved in self._cloned.values())


class _ContiguousCopy:
    """A tensor that is dense on the CPU, and the address of the copy of its bytes."""

    __slots__ = ("address", "alias", "copied_to", "size", "tensor")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor, copied_to: int) -> None:
        self.tensor = tensor
        self.alias = alias  # keeps the memory and the view of it, whatever is done to the tensor
        self.address, self.size = alias.data_ptr(), alias.nbytes
        self.copied_to = copied_to

    def has_new_data(self) -> bool:
        """Tell whether the tensor has another address, shape, stride or dtype than before."""
        now, alias = self.tensor, self.alias
        return (now.data_ptr(), now.shape, now.stride(), now.dtype) != (
            self.address, alias.shape, alias.stride(), alias.dtype)  # fmt: skip

    def has_changed(self) -> bool:
        """Tell whether the tensor's values changed."""
        if not self.has_new_data():
            return not same_bytes(self.address, self.copied_to, self.size)
        if not has_all_memory(self.tensor):
            return True
        before = torch.empty_like(self.alias)  # dense, so of the same strides
        copy_bytes(before.data_ptr(), self.copied_to, self.size)
        return not _equal(before, self.tensor.detach())

    def restore(self) -> None:
        """Give the tensor its memory back, and write the old values into that."""
        if self.has_new_data():
            _grow_storage(self.alias)
            self.tensor.data = self.alias
            self.address = self.alias.data_ptr()
        copy_bytes(self.address, self.copied_to, self.size)


class _ClonedCopy:
    """A tensor of any other kind, and a clone of it."""

    __slots__ = ("_value", "alias", "tensor")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor) -> None:
        self.tensor, self.alias, self._value = tensor, alias, alias.clone()

    def has_new_data(self) -> bool:
        """Tell whether the tensor has another shape, dtype, layout, device or strides than before."""
        return _facts(self.tensor) != _facts(self.alias)

    def has_changed(self) -> bool:
        """Tell whether the tensor's values changed."""
        return not _equal(self._value, self.tensor.detach())

    def restore(self) -> None:
        """Write the old values into the tensor."""
        # A tensor of inference mode can be written to in that mode only.
        with torch.inference_mode(self.tensor.is_inference()), torch.no_grad():
            if self.has_new_data():
                is_view = is_plain(self.alias) and has_all_memory(self.alias)
                self.tensor.data = self.alias if is_view else self._value.clone()
                if not is_view:
                    return
            target, value = self.tensor, self._value
            if is_plain(self.alias):  # elements of one place in memory cannot be written to as a whole
                for dim, stride in enumerate(self.alias.stride()):
                    if stride == 0 and self.alias.size(dim) > 1:
                        target, value = target.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
            target.copy_(value)  # not to a detached one: of a sparse tensor that is another


class _WrappedCopy(_ClonedCopy):
    """A tensor that holds others, as quantized ones do, and copies of these: it has few operators of its own."""

    __slots__ = ("_parts",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = self.alias = tensor  # whose shape and strides are fixed
        self._parts = {name: _copy_of(part, part.detach()) for name, part in wrapped_tensors(tensor).items()}

    def has_new_data(self) -> bool:
        """Tell whether it holds other tensors, or one of other memory."""
        return any(
            getattr(self.tensor, name) is not part.tensor or part.has_new_data() for name, part in self._parts.items()
        )

    def has_changed(self) -> bool:
        """Tell whether a tensor in it was replaced or changed."""
        return any(
            getattr(self.tensor, name) is not part.tensor or part.has_changed() for name, part in self._parts.items()
        )

    def restore(self) -> None:
        """Put the tensors back that it held, with their values."""
        for name, part in self._parts.items():
            if getattr(self.tensor, name) is not part.tensor:
                setattr(self.tensor, name, part.tensor)
            part.restore()


def _copy_of(tensor: torch.Tensor, alias: torch.Tensor) -> _ClonedCopy:
    return _WrappedCopy(tensor) if wrapped_tensors(tensor) else _ClonedCopy(tensor, alias)


def _is_dense_on_cpu(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements fill one stretch of the CPU's memory, in any order."""
    if not is_plain(tensor) or not tensor.is_cpu:
        return False
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _version_of(tensor: torch.Tensor) -> int | None:
    """Return torch's count of writes; None for tensors of inference mode, which have none."""
    return None if tensor.is_inference() else tensor._version


def _grow_storage(tensor: torch.Tensor) -> None:
    """Give a storage that was made smaller the size that its tensor needs."""
    storage = tensor.untyped_storage()
    needed = int(tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    if storage.nbytes() < needed:
        storage.resize_(needed)


def _equal(value: torch.Tensor, now: torch.Tensor) -> bool:
    if _facts(value)[:-1] != _facts(now)[:-1]:
        return False
    if not has_values(value):
        return True
    if value.is_nested:
        return all(map(_equal, value.unbind(), now.unbind()))
    if value.layout is not torch.strided:
        value, now = value.to_dense(), now.to_dense()
    return torch.equal(_bits(value), _bits(now))


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    return _shape(tensor), tensor.dtype, tensor.layout, tensor.device, _strides(tensor)


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape; of a nested tensor, which may have none, the number of its parts."""
    return (tensor.size(0),) if tensor.is_nested else tuple(tensor.shape)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    return tensor.stride() if tensor.layout is torch.strided and not tensor.is_nested else ()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes, in which NaN equals itself."""
    flat = tensor.contiguous().resolve_conj().resolve_neg().reshape(-1)
    return (flat.int_repr() if flat.is_quantized else flat).view(torch.uint8)
