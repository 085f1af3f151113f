"""What torch.distributed has beside tensors: groups of processes, and how a collective reduces.

Both may be arguments of a graph. A torch that was built without torch.distributed has neither.
"""

from __future__ import annotations

from typing import Any

import torch

_DISTRIBUTED: Any = torch.distributed if torch.distributed.is_available() else None
_GROUPS: tuple[type, ...] = () if _DISTRIBUTED is None else (_DISTRIBUTED.ProcessGroup,)
# The class of ReduceOp.SUM and its like, which are no members of an enum of Python's.
_REDUCTIONS: tuple[type, ...] = () if _DISTRIBUTED is None else (type(_DISTRIBUTED.ReduceOp.SUM),)


def is_process_group(value: object) -> bool:
    """Tell whether a value is a group of processes."""
    return isinstance(value, _GROUPS)


def process_groups_of(root: torch.nn.Module) -> list[Any]:
    """Return the groups that a module and the modules in it have as attributes; they can be copied by no means."""
    if _DISTRIBUTED is None or not _DISTRIBUTED.is_initialized():
        return []
    return [value for module in root.modules() for value in vars(module).values() if is_process_group(value)]


def is_reduction(value: object) -> bool:
    """Tell whether a value says how a collective reduces: `torch.distributed.ReduceOp.SUM`."""
    return isinstance(value, _REDUCTIONS)


def reduction_source(value: Any) -> str:
    """Return how code names a reduction."""
    return f"torch.distributed.ReduceOp.{value.name}"
