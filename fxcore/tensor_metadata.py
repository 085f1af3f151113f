"""What is known of a tensor without its data."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import _prims_common

_WITH_STRIDES = (torch.strided, torch.jagged)
_MEMORY_FORMATS = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
_PER_TENSOR = (torch.per_tensor_affine, torch.per_tensor_symmetric)


class TensorMetadata(NamedTuple):
    """Shape, dtype and layout of a tensor, as ShapeProp records them in `node.meta["tensor_meta"]`."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def is_tensor_metadata(value: Any) -> bool:
    """Tell whether `value` is metadata of a tensor: ours, or that of torch.fx in a graph that came from there."""
    return isinstance(value, tuple) and type(value).__name__ == TensorMetadata.__name__


def extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of `result`; the memory format only with `include_contiguity`, as finding it takes a look."""
    has_strides = result.layout in _WITH_STRIDES
    return TensorMetadata(
        shape=result.shape,
        dtype=result.dtype,
        requires_grad=result.requires_grad,
        stride=result.stride() if has_strides else (),
        memory_format=_memory_format(result) if include_contiguity and has_strides else None,
        is_quantized=result.is_quantized,
        qparams=_quantization(result) if result.is_quantized else {},
    )


def _memory_format(tensor: torch.Tensor) -> torch.memory_format | None:
    return next((candidate for candidate in _MEMORY_FORMATS if _is_laid_out(tensor, candidate)), None)


def _is_laid_out(tensor: torch.Tensor, memory_format: torch.memory_format) -> bool:
    if type(tensor) is torch.Tensor:  # no symbolic sizes, and asking the tensor itself is twenty times cheaper
        return tensor.is_contiguous(memory_format=memory_format)
    # torch has a form of the question that sets no guards on symbolic sizes, but not in every release.
    ask = getattr(_prims_common, "is_contiguous_for_memory_format_or_false", None)
    if ask is not None:
        return bool(ask(tensor, memory_format=memory_format))
    return tensor.is_contiguous(memory_format=memory_format)


def _quantization(tensor: torch.Tensor) -> dict[str, Any]:
    scheme = tensor.qscheme()
    if scheme in _PER_TENSOR:
        return {"qscheme": scheme, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    # Per channel, as plain lists: metadata outlives tensors and gets serialized.
    return {
        "qscheme": scheme,
        "scale": tensor.q_per_channel_scales().tolist(),
        "zero_point": tensor.q_per_channel_zero_points().tolist(),
        "axis": tensor.q_per_channel_axis(),
    }
