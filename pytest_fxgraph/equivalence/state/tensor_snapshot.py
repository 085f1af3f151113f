"""The values of many tensors as they were: noticing what was written to them, and writing it back."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Iterator

import torch

from pytest_fxgraph.equivalence.aliasing import has_all_memory
from pytest_fxgraph.equivalence.inputs import is_plain

_libc = ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)
_compare = _libc.memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_compare.restype = ctypes.c_int


def same_bytes(one: int, other: int, size: int) -> bool:
    """Tell whether two pieces of memory hold the same bytes; whoever calls keeps both alive."""
    return not _compare(one, other, size)


def copy_bytes(to: int, source: int, size: int) -> None:
    """Copy from one piece of memory to another; whoever calls keeps both alive."""
    ctypes.memmove(to, source, size)


_LARGE_PAGE = 2 << 20
# More is given back to the system: tests that come later may need it.
_KEPT = 512 << 20


class BufferPool:
    """Lends memory, and keeps one piece of what comes back: its first touch costs more than copying into it."""

    def __init__(self) -> None:
        self._spare: list[torch.Tensor] = []  # one or none; a list's pop() cannot lend one piece to two threads

    def take(self, size: int) -> torch.Tensor:
        """Lend at least so many bytes; nobody else has them until they are given back."""
        try:
            spare = self._spare.pop()
        except IndexError:
            return _reserved(size)
        return spare if spare.numel() >= size else _reserved(size)

    def give_back(self, memory: torch.Tensor) -> None:
        """Take memory back that nobody reads any more."""
        if not self._spare and memory.numel() <= _KEPT:
            self._spare.append(memory)


def _reserved(size: int) -> torch.Tensor:
    """Reserve memory in large pages where the system has them: one is touched where 512 small ones would be."""
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
    """Copies of the values of some tensors, each told by its id."""

    def __init__(self, tensors: Iterable[torch.Tensor], spare: BufferPool | None = None) -> None:
        """Copy the values, into memory of `spare` if that is given."""
        self._spare = spare or BufferPool()
        self._pieces: dict[int, _ContiguousCopy] = {}
        self._others: dict[int, _Other] = {}
        size = 0
        for tensor in tensors:
            alias = tensor.detach()
            if not has_all_memory(alias):
                continue  # freed for the time being, as sharded training does: there is nothing to keep
            if _is_one_piece(alias):
                self._pieces[id(tensor)] = piece = _ContiguousCopy(tensor, alias, size)
                size += -(-piece.size // _ALIGNMENT) * _ALIGNMENT
            else:
                self._others[id(tensor)] = _Other(tensor, alias)
        self._memory = self._spare.take(size)
        start = self._memory.data_ptr()
        for piece in self._pieces.values():
            piece.copied_to += start
            copy_bytes(piece.copied_to, piece.address, piece.size)
        self._has_uncounted = any(tensor.is_inference() for tensor in self._tensors())
        self._forget_writes()

    def release(self) -> None:
        """Give the memory of the copies back; nothing can be compared or restored from now on."""
        self._pieces.clear()
        self._spare.give_back(self._memory)

    def __contains__(self, key: int) -> bool:
        return key in self._pieces or key in self._others

    def changed(self) -> set[int]:
        """Give the ids of the tensors that hold other values than they did; reads all of them."""
        found = {key for key, other in self._others.items() if other.has_changed()}
        if self.has_moved():
            return found | {key for key, piece in self._pieces.items() if piece.has_changed()}
        return found | {
            key
            for key, piece in self._pieces.items()
            if piece.has_moved() or not same_bytes(piece.address, piece.copied_to, piece.size)
        }

    def changed_by_version(self) -> set[int]:
        """Give the ids of those that torch saw a write to, or that look at other memory now; reads only these."""
        if not self._has_uncounted and not self.has_moved() and self._versions_now() == self._versions:
            return set()
        saved: dict[int, _ContiguousCopy | _Other] = {**self._pieces, **self._others}
        return {
            key
            for key, version in zip(saved, self._versions, strict=True)
            if (version is None or _version_of(saved[key].tensor) != version or saved[key].has_moved())
            and saved[key].has_changed()
        }

    def has_new_version(self, key: int) -> bool:
        """Tell whether torch saw a write to a tensor; always so for one whose writes it does not count."""
        for tensor, version in zip(self._tensors(), self._versions, strict=True):
            if id(tensor) == key:
                return version is None or _version_of(tensor) != version
        return False

    def restore(self, changed: set[int]) -> None:
        """Write the old values into the changed tensors, and let every tensor look at its old memory."""
        for key in self._pieces if self.has_moved() else changed & self._pieces.keys():
            self._pieces[key].restore()
        for key in changed & self._others.keys():
            self._others[key].restore()
        self._forget_writes()

    def has_moved(self) -> bool:
        """Tell whether a tensor looks at other memory than it did; what is no one piece of the CPU's is not asked."""
        return self._addresses_now() != self._addresses

    def _forget_writes(self) -> None:
        """Take what was written so far for the tensors' past."""
        self._versions, self._addresses = self._versions_now(), self._addresses_now()

    def _versions_now(self) -> list[int | None]:
        if self._has_uncounted:
            return [_version_of(tensor) for tensor in self._tensors()]
        return [tensor._version for tensor in self._tensors()]

    def _addresses_now(self) -> list[int]:
        return [piece.tensor.data_ptr() for piece in self._pieces.values()]

    def _tensors(self) -> Iterator[torch.Tensor]:
        for piece in self._pieces.values():
            yield piece.tensor
        for other in self._others.values():
            yield other.tensor


class _ContiguousCopy:
    """A tensor that is one piece of the CPU's memory, and where the copy of that is."""

    __slots__ = ("_alias", "address", "copied_to", "size", "tensor")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor, copied_to: int) -> None:
        self.tensor = tensor
        self._alias = alias  # looks at the memory as the tensor did, whatever becomes of the tensor
        self.address, self.size = alias.data_ptr(), alias.nbytes
        self.copied_to = copied_to

    def has_moved(self) -> bool:
        """Tell whether the tensor looks at other memory, or otherwise, than it did."""
        now, alias = self.tensor, self._alias
        return (now.data_ptr(), now.shape, now.stride(), now.dtype) != (
            self.address, alias.shape, alias.stride(), alias.dtype)  # fmt: skip

    def has_changed(self) -> bool:
        """Tell whether the tensor holds other values than it did."""
        if not self.has_moved():
            return not same_bytes(self.address, self.copied_to, self.size)
        if not has_all_memory(self.tensor):
            return True
        before = torch.empty_like(self._alias)  # of the same strides, for those of one piece are kept
        copy_bytes(before.data_ptr(), self.copied_to, self.size)
        return not _same(before, self.tensor.detach())

    def restore(self) -> None:
        """Let the tensor look at its memory, and write the old values into that."""
        if self.has_moved():
            _grow_to_hold(self._alias)
            self.tensor.data = self._alias
            self.address = self._alias.data_ptr()
        copy_bytes(self.address, self.copied_to, self.size)


class _Other:
    """A tensor of any other kind, and a copy of it."""

    __slots__ = ("_alias", "_value", "tensor")

    def __init__(self, tensor: torch.Tensor, alias: torch.Tensor) -> None:
        self.tensor, self._alias, self._value = tensor, alias, alias.clone()

    def has_moved(self) -> bool:
        """Tell whether the tensor is of another kind than it was; where it is is not asked."""
        now, alias = self.tensor, self._alias
        return (now.shape, now.dtype, now.layout, now.device) != (alias.shape, alias.dtype, alias.layout, alias.device)

    def has_changed(self) -> bool:
        """Tell whether the tensor holds other values than it did."""
        return not _same(self._value, self.tensor.detach())

    def restore(self) -> None:
        """Write the old values into the tensor."""
        # A tensor of inference mode can be written to in that mode only.
        with torch.inference_mode(self.tensor.is_inference()), torch.no_grad():
            if self.has_moved():
                self.tensor.data = self._value.clone()
            else:
                self.tensor.copy_(self._value)  # not to a detached one: of a sparse tensor that is another


def _is_one_piece(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor's elements lie side by side in the CPU's memory, in whatever order."""
    if not is_plain(tensor) or not tensor.is_cpu:
        return False
    if tensor.is_contiguous():
        return True
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.dim() in formats and tensor.is_contiguous(memory_format=formats[tensor.dim()])


def _version_of(tensor: torch.Tensor) -> int | None:
    """Give torch's count of writes; None for tensors of inference mode, which have none."""
    return None if tensor.is_inference() else tensor._version


def _grow_to_hold(tensor: torch.Tensor) -> None:
    """Give a storage that was cut down its size back."""
    storage = tensor.untyped_storage()
    needed = int(tensor.storage_offset() + tensor.numel()) * tensor.element_size()
    if storage.nbytes() < needed:
        storage.resize_(needed)


def _same(value: torch.Tensor, now: torch.Tensor) -> bool:
    facts = [(tensor.shape, tensor.dtype, tensor.layout, tensor.device) for tensor in (value, now)]
    if facts[0] != facts[1]:
        return False
    if value.is_meta:
        return True
    if value.layout is not torch.strided:
        value, now = value.to_dense(), now.to_dense()
    return torch.equal(_bits(value), _bits(now))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Look at the bits, where NaN equals itself."""
    flat = tensor.contiguous().resolve_conj().resolve_neg().reshape(-1)
    return (flat.int_repr() if flat.is_quantized else flat).view(torch.uint8)
