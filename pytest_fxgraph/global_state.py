"""What torch keeps for the whole process, and a model or a pass may change: gradient mode, autocast, threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch


def _default_device() -> torch.device | None:
    """Return the default device; None where none was ever set, which get_default_device() does not tell."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _autocast(device: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    return read, write


# By the name that messages use: how it is read, and how it is set.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (_default_device, torch.set_default_device),
    "autocast on cpu": _autocast("cpu"),
    "autocast on cuda": _autocast("cuda"),
    "the cache of autocast": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "use of deterministic algorithms": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _set_deterministic,
    ),
    "cudnn.deterministic": (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    "cudnn.benchmark": (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
}

Changes = Mapping[str, str]  # by name of a setting: "True -> False"


@dataclass(frozen=True)
class GlobalState:
    """torch's settings at one time."""

    values: tuple[Any, ...]

    @classmethod
    def now(cls) -> GlobalState:
        """Read all settings."""
        return cls(tuple([read() for read, _ in _SETTINGS.values()]))

    def changes(self) -> Changes:
        """Return what was changed since, in words."""
        now = GlobalState.now().values
        if now == self.values:
            return {}
        named = zip(_SETTINGS, self.values, now, strict=True)
        return {name: f"{before} -> {after}" for name, before, after in named if before != after}

    def restore(self) -> None:
        """Set what was changed since back."""
        for (read, write), value in zip(_SETTINGS.values(), self.values, strict=True):
            if read() != value:
                write(value)


@contextlib.contextmanager
def global_state_kept() -> Iterator[GlobalState]:
    """Restore torch's settings at the end of a with block, also after an error."""
    before = GlobalState.now()
    try:
        yield before
    finally:
        before.restore()
