"""Values of torch.distributed: groups of processes and reductions, which may be arguments of a graph, and tensors.

A torch that was built without torch.distributed has none of them.
"""

from __future__ import annotations

from typing import Any

import torch

_DISTRIBUTED: Any = torch.distributed if torch.distributed.is_available() else None
_GROUPS: tuple[type, ...] = () if _DISTRIBUTED is None else (_DISTRIBUTED.ProcessGroup,)
# The class of ReduceOp.SUM and the other reductions. They are no members of a Python enum.
_REDUCTIONS: tuple[type, ...] = () if _DISTRIBUTED is None else (type(_DISTRIBUTED.ReduceOp.SUM),)


def is_process_group(value: object) -> bool:
    """Return whether a value is a group of processes."""
    return isinstance(value, _GROUPS)


def is_distributed(value: object) -> bool:
    """Return whether a value is a tensor with a mesh of ranks and placements on it, as torch's DTensor."""
    return isinstance(value, torch.Tensor) and hasattr(value, "placements") and hasattr(value, "device_mesh")


def process_groups_of(root: torch.nn.Module) -> list[Any]:
    """Return the process groups among the attributes of a module and its submodules. They cannot be copied."""
    if _DISTRIBUTED is None or not _DISTRIBUTED.is_initialized():
        return []
    return [value for module in root.modules() for value in vars(module).values() if is_process_group(value)]


def is_reduction(value: object) -> bool:
    """Return whether a value is a reduction of a collective: `torch.distributed.ReduceOp.SUM`."""
    return isinstance(value, _REDUCTIONS)


def reduction_source(value: Any) -> str:
    """Return the expression for a reduction in generated code."""
    return f"torch.distributed.ReduceOp.{value.name}"
