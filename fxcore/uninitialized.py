"""Lazy modules of torch.nn before their first call. Their parameters and buffers have no shapes yet."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer

from fxcore.errors import FxError


def find_uninitialized(root: nn.Module) -> tuple[str, LazyModuleMixin] | None:
    """Return path and module of the first lazy module in `root` without shapes; None without one."""
    for path, module in root.named_modules():
        if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():  # type: ignore[misc]  # its own Protocol
            return path, module
    return None


def refuse_uninitialized(root: nn.Module, path: str, action: str, error: type[FxError]) -> None:
    """Raise `error` if `root`, a module at `path`, contains a lazy module without shapes."""
    found = find_uninitialized(root)
    if found is not None:
        inner, module = found
        where = ".".join([part for part in (path, inner) if part])
        raise error(
            f"{action} a lazy module that is not initialized yet: {type(module).__name__}"
            + (f" at {where!r}" if where else "")
            + " has no shapes before its first call. Call the model once, with inputs as it will get, and do this then"
        )


def note_uninitialized_copies(root: nn.Module, memo: dict[int, Any]) -> None:
    """Put copies of buffers without shapes into the memo of a deep copy, because torch cannot copy them."""
    for buffer in root.buffers():
        if isinstance(buffer, UninitializedBuffer):
            memo[id(buffer)] = type(buffer)(
                device=buffer.device,  # type: ignore[call-arg]  # an argument of `__new__` that mypy does not see
                dtype=buffer.dtype,
            )
