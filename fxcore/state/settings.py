"""Settings of torch for the whole process, as a model or a pass may change them: grad mode, autocast, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxcore.state.readings import Reading


def _default_device() -> torch.device | None:
    """Return the default device, and None before the first torch.set_default_device(), unlike get_default_device()."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _set_default_device(device: torch.device | None) -> None:
    torch.set_default_device(device)
    if device is None:  # torch 2.6 leaves a None there that its get_default_device() cannot read
        vars(torch._GLOBAL_DEVICE_CONTEXT).pop("device_context", None)


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _autocast(device: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    return read, write


def _depth_of_autocast() -> int:
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _leave_autocast(depth: int) -> None:
    while (now := _depth_of_autocast()) > depth:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
    for _ in range(now, depth):
        torch.autocast_increment_nesting()


class _Hooks(tuple[tuple[str, Any, Any], ...]):
    """The hooks of all modules: for each hook its dict, its key and itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{len(self)} hook{'' if len(self) == 1 else 's'}"


_HOOK_DICTS: dict[str, dict[Any, Any]] = {
    name: value
    for name, value in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(value, dict)
}


def _hooks_of_all_modules() -> _Hooks:
    if not any(_HOOK_DICTS.values()):
        return _Hooks()
    return _Hooks((name, key, hook) for name, hooks in _HOOK_DICTS.items() for key, hook in hooks.items())


def _set_hooks_of_all_modules(hooks: _Hooks) -> None:
    for name, held in _HOOK_DICTS.items():
        held.clear()
        held.update({key: hook for place, key, hook in hooks if place == name})


def _number_of_modes() -> int:
    """Count the entered modes for functions of torch, without the mode of a default device: that is its own setting."""
    count = int(torch._C._len_torch_function_stack())
    return count - (_default_device() is not None) if count else 0


def _leave_modes(count: int) -> None:
    while _number_of_modes() > count:
        torch._C._pop_torch_function_stack()


def _print_options() -> tuple[tuple[str, Any], ...]:
    return tuple(vars(torch._tensor_str.PRINT_OPTS).items())


MODES = "the number of modes for torch functions"

# By the name in messages: a function that reads the setting, and a function that sets it.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "grad mode": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (_default_device, _set_default_device),
    "autocast on cpu": _autocast("cpu"),
    "autocast on cuda": _autocast("cuda"),
    "the depth of autocast": (_depth_of_autocast, _leave_autocast),
    "the cache of autocast": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "use of deterministic algorithms": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _set_deterministic,
    ),
    "cudnn.deterministic": (torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic),
    "cudnn.benchmark": (torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark),
    "anomaly detection": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the precision of float32 matrix products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "hooks of all modules": (_hooks_of_all_modules, _set_hooks_of_all_modules),
    MODES: (_number_of_modes, _leave_modes),
    "the print options": (_print_options, lambda options: vars(torch._tensor_str.PRINT_OPTS).update(options)),
}

SETTINGS = tuple([Reading(name, "setting", (name,), read, write) for name, (read, write) in _SETTINGS.items()])
