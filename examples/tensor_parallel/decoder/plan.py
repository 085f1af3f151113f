"""The plan: heads and hidden units are split over the ranks, so each block has two reductions."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from decoder.model import Decoder, decoder

SPLIT_OF_A_BLOCK = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "gate": ColwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}


def tensor_parallel(rank: int) -> Decoder:
    """Return the model of a rank."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    model = decoder()
    for block in model.blocks:
        parallelize_module(block, mesh, SPLIT_OF_A_BLOCK)
    return model
