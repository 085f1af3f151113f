"""The form in which a tensor is held, as text: quantized, or wrapped by a class that keeps other tensors.

    qint8[8, 4] per channel, axis 0, symmetric
    float32[32, 64] as int8 per channel, axis 0, symmetric: torchao.quantization.Int8Tensor(qdata=int8[32, 64], ...)

Scales and zero points of weights follow from the weights, and goldens do not hold the values of weights. The text says
only whether all zero points are zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fxcore.node_data.distributed_types import is_distributed
from fxcore.state.storage import ORDINARY, has_values, wrapped_tensors
from pytest_fxgraph.document.target_names import class_name, text_or_class
from pytest_fxgraph.document.tensor_texts import dtype_name, tensor_text

_NARROW = re.compile(r"torch\.u?int[1-7]\Z")  # dtypes that no tensor of its own has in memory
_NOT_TOLD = ("requires_grad", "device")  # the record says the first; goldens do not hold devices of state


def form_text(tensor: torch.Tensor, text: Callable[[Any], str]) -> str:
    """Return the text behind dtype and shape; "" for an ordinary tensor. `text` writes attributes of the class."""
    # The part of a distributed tensor on one rank follows from its mesh and placements.
    parts = {} if is_distributed(tensor) else wrapped_tensors(tensor)
    attributes = {} if type(tensor) in ORDINARY or tensor.is_nested else _attributes(tensor)
    if parts or attributes:
        words = _words_of_parts(tensor, _innermost(parts), attributes)
        held = [f"{name}={tensor_text(part)}{form_text(part, text)}" for name, part in parts.items()]
        told = [f"{name}={text_or_class(value, text)}" for name, value in attributes.items()]
        return f" as {words}{': ' * bool(words)}{class_name(type(tensor))}({', '.join(held + told)})"
    try:
        return f" {_words_of_scheme(tensor)}" if tensor.is_quantized else ""
    except (RuntimeError, NotImplementedError):  # a fake or user's tensor that does not know its scheme
        return ""


def _words_of_scheme(tensor: torch.Tensor) -> str:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return "per tensor" + ", symmetric" * (tensor.q_zero_point() == 0)
    words = f"per channel, axis {tensor.q_per_channel_axis()}"
    return words + _symmetry(tensor.q_per_channel_zero_points())


def _symmetry(zero_points: torch.Tensor | None) -> str:
    is_symmetric = zero_points is not None and has_values(zero_points) and not zero_points.any()
    return ", symmetric" if is_symmetric else ""


def _innermost(parts: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors that wrap no others, by their own names."""
    found: dict[str, torch.Tensor] = {}
    for name, part in parts.items():
        inner = wrapped_tensors(part)
        found |= _innermost(inner) if inner else {name: part}
    return found


def _words_of_parts(tensor: torch.Tensor, parts: Mapping[str, torch.Tensor], attributes: Mapping[str, Any]) -> str:
    """Describe a quantized weight by its parts; "" if no part has small numbers."""
    small = [part for part in parts.values() if part.dtype.itemsize == 1 and part.dtype is not torch.bool]
    if not small or not tensor.numel() or tensor.dtype.itemsize == 1:
        return ""
    data = max(small, key=torch.Tensor.numel)
    kind = dtype_name(data.dtype)
    if data.numel() != tensor.numel():
        kind = f"{8 * data.numel() / tensor.numel():g} bits in {kind}"
    narrow = [str(value) for value in attributes.values() if _NARROW.match(str(value))]
    if narrow:
        kind = f"{narrow[0].removeprefix('torch.')} in {dtype_name(data.dtype)}"
    scale = next((part for name, part in parts.items() if "scale" in name), None)
    zero_point = next((part for name, part in parts.items() if "zero" in name), None)
    block = _block(tensor, scale, attributes.get("block_size"))
    return f"{kind}{f' {_granularity(tensor.shape, block)}' if block else ''}{_symmetry(zero_point)}"


def _block(tensor: torch.Tensor, scale: torch.Tensor | None, block: Any) -> Sequence[int]:
    """Return the sizes of the blocks that share a scale; nothing if neither the class nor the scales say it."""
    if isinstance(block, (list, tuple)) and len(block) == tensor.dim():
        return block
    if scale is None:
        return ()
    if scale.numel() == 1:
        return tensor.shape
    counts = [*scale.shape, *[1] * (tensor.dim() - scale.dim())]
    is_known = len(counts) == tensor.dim() and all(
        not size % count for size, count in zip(tensor.shape, counts, strict=True)
    )
    return [size // count for size, count in zip(tensor.shape, counts, strict=True)] if is_known else ()


def _granularity(shape: Sequence[int], block: Sequence[int]) -> str:
    split = [axis for axis, size in enumerate(shape) if block[axis] < size]
    if not split:
        return "per tensor"
    if len(split) == 1 and block[split[0]] == 1:
        return f"per channel, axis {split[0]}"
    return f"in groups of {math.prod(min(pair) for pair in zip(block, shape, strict=True))}, axis {split[-1]}"


def _attributes(tensor: torch.Tensor) -> dict[str, Any]:
    """Return a tensor's attributes: mesh and placements, or whatever its class rebuilds it from."""
    if is_distributed(tensor):
        mesh: Any = tensor.device_mesh  # type: ignore[attr-defined]  # of torch.distributed
        placements = [*map(str, tensor.placements)]  # type: ignore[attr-defined]
        named = {} if mesh.mesh_dim_names is None else {"names": mesh.mesh_dim_names}
        return {"mesh": mesh.mesh.tolist(), **named, "placements": placements}
    flatten = getattr(tensor, "__tensor_flatten__", None)
    context = None if flatten is None else flatten()[1]
    if isinstance(context, Mapping) and all(isinstance(name, str) for name in context):
        found = dict(context)
    elif flatten is None and type(tensor).__module__.partition(".")[0] == "torch":
        found = {}  # fake, functional and lazy tensors stand for others
    else:
        found = {name: value for name, value in vars(tensor).items() if not isinstance(value, torch.Tensor)}
        found = {name: value for name, value in found.items() if not name.startswith("_")} or {"context": context}
    is_told = {"dtype": tensor.dtype, "shape": tensor.shape}
    return {
        name: value
        for name, value in found.items()
        if value is not None and name not in _NOT_TOLD and (name not in is_told or is_told[name] != value)
    }
