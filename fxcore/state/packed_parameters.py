"""Tensors inside packed parameters: the objects in which torch.ao's quantized modules keep weights and biases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_NAMES = ("weight", "bias")
_QUANTIZED_MODULES = "torch.ao."


def packed_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the packed tensors of a module, but not of the modules inside it, with names such as `weight`."""
    if not type(module).__module__.startswith(_QUANTIZED_MODULES):
        return
    for name, value in vars(module).items():
        if isinstance(value, torch.ScriptObject):
            prefix = "" if name.startswith("_packed") else f"{name}."
            for part, tensor in tensors_of_packed(value):
                # Weights that are packed as float16 are unpacked as float32.
                is_half = part == "weight" and getattr(module, "dtype", None) is torch.float16
                yield prefix + part, tensor.half() if is_half else tensor


def tensors_of_packed(value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of one packed object; nothing for an object of another kind."""
    methods = value._method_names()
    if "unpack" in methods:
        unpacked = value.unpack()
        parts = (unpacked,) if isinstance(unpacked, torch.Tensor) else unpacked
        yield from ((name, part) for name, part in zip(_NAMES, parts, strict=False) if isinstance(part, torch.Tensor))
    elif ".classes.rnn." in str(value._type()):
        # A cell has no method `unpack`. Its state holds a packed object for each weight.
        for number, packed in enumerate(_packed_in(value.__getstate__())):
            yield from ((f"{number}.{name}", tensor) for name, tensor in tensors_of_packed(packed))


def _packed_in(state: Any) -> Iterator[Any]:
    if isinstance(state, torch.ScriptObject):
        yield state
    elif isinstance(state, (tuple, list)):
        for part in state:
            yield from _packed_in(part)
