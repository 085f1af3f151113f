"""relu(x + y) in one call of a kernel."""

from __future__ import annotations

import torch

import fxcore
from fxcore.subgraph_rewriter import replace_pattern


@fxcore.wrap
def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return relu(x + y); the kernel of the device stands here."""
    return torch.relu(x + y)


def pattern(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What is looked for."""
    return torch.relu(x + y)


def replacement(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What stands in its place."""
    return add_relu(x, y)


def fuse_add_relu(gm: fxcore.GraphModule) -> fxcore.GraphModule:
    """Call the kernel wherever a sum, which nobody else reads, goes into a relu."""
    replace_pattern(gm, pattern, replacement)
    return gm
