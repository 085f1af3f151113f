"""What is known of a tensor without its data."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class TensorMetadata(NamedTuple):
    """Shape, dtype and layout of a tensor, as ShapeProp records them in `node.meta["tensor_meta"]`."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]
