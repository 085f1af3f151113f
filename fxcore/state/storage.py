"""The memory behind a tensor: its storage, its size and copies of it."""

from __future__ import annotations

import sys

import torch

# Classes of tensors that answer every question as torch's own class does.
ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})


def storage_of(tensor: torch.Tensor) -> int:
    """Return a number that identifies the storage of a tensor while the tensor lives."""
    return int(tensor.untyped_storage()._cdata)


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has exactly one storage, and elements in the storage."""
    return tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0


def has_all_memory(tensor: torch.Tensor) -> bool:
    """Return whether a storage is as large as its tensor needs; a read of freed memory would end the process."""
    if not has_storage(tensor):
        return True
    # Every check asks every tensor of a model, and thus the quick question comes first.
    if tensor.is_contiguous():
        steps = tensor.numel() - 1
    else:
        steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = int(tensor.storage_offset() + steps + 1) * tensor.element_size()
    has_no_storage = type(tensor) is not torch.Tensor and type(tensor.data) is not torch.Tensor
    return has_no_storage or tensor.untyped_storage().nbytes() >= needed


def has_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has values to read; meta and fake tensors have no values."""
    fake = sys.modules.get("torch._subclasses.fake_tensor")  # an import comes before the first fake tensor
    return not tensor.is_meta and (fake is None or not isinstance(tensor, fake.FakeTensor))


def is_readable(tensor: torch.Tensor) -> bool:
    """Return whether a tensor answers questions; a class of the user may raise at every question."""
    if type(tensor) in ORDINARY:
        return True
    try:
        return bool(tensor.detach().is_leaf)
    except Exception:
        return False


def is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is an ordinary strided view of its storage: no subclass, not lazy, no other layout."""
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and not (
        tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
    )  # fmt: skip


def wrapped_tensors(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the parts of a tensor that wraps others, as quantized tensors do, by attribute; empty for other tensors.

    A wrapping tensor has only the operators of its class. Thus its values are read from its parts.
    """
    if type(tensor) is torch.Tensor or tensor.is_nested:
        return {}
    flatten = getattr(tensor, "__tensor_flatten__", None)
    parts = {} if flatten is None else {name: getattr(tensor, name) for name in flatten()[0]}
    # A distributed tensor names its mesh among its parts.
    return {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}


def copy_storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Return a copy of a tensor's whole storage."""
    storage = tensor.untyped_storage()
    # torch leaves this constructor without types.
    fresh: torch.UntypedStorage = torch.UntypedStorage(storage.nbytes(), device=storage.device)  # type: ignore[no-untyped-call]
    return fresh.copy_(storage)


def view_like(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a view of `storage` with the tensor's dtype, shape, strides and offset."""
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return fresh.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def flat_view(storage: torch.UntypedStorage, dtype: torch.dtype) -> torch.Tensor:
    """Return all elements of a storage as a tensor of one dimension."""
    fresh = torch.empty(0, dtype=dtype, device=storage.device)
    return fresh.set_(storage, 0, (storage.nbytes() // fresh.element_size(),), (1,))


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor with its strides and `requires_grad`; the copy has no gradient history and shares no storage."""
    if is_plain(tensor):
        return view_like(tensor, copy_storage(tensor)).requires_grad_(tensor.requires_grad)
    fresh = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fresh, tensor.requires_grad)
    if tensor.is_conj() and not fresh.is_conj():
        fresh = fresh.conj().resolve_conj().conj()
    return fresh.requires_grad_(tensor.requires_grad)
