"""The private parts of torch.distributed that captures of ranks read. A release without a part has nothing to read."""

from __future__ import annotations

import sys
from typing import Any

import torch


def process_groups() -> list[Any]:
    """Return the process groups of this process in the order in which they were made."""
    distributed: Any = sys.modules["torch.distributed.distributed_c10d"]
    return [group for group in distributed._world.pg_map if hasattr(group, "group_name")]


def forget_placements() -> None:
    """Empty DTensor's caches: meshes of two ranks are equal, so a cached result could hold another rank's mesh."""
    tensor = getattr(torch.distributed, "tensor", None)
    dispatcher = getattr(getattr(tensor, "DTensor", None), "_op_dispatcher", None)
    propagator = getattr(dispatcher, "sharding_propagator", None)
    redistribution = sys.modules.get("torch.distributed.tensor._redistribute")  # nothing is cached without its import
    owners = getattr(propagator, "propagate_op_sharding", None), getattr(redistribution, "_gen_transform_infos", None)
    for owner in owners:
        clear = getattr(owner, "cache_clear", None) or getattr(getattr(owner, "cache", None), "cache_clear", None)
        if callable(clear):
            clear()
    clear_native = getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", None)
    if callable(clear_native):
        clear_native()
