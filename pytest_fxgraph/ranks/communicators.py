"""Groups of processes of one rank: the ranks in each, and the dimension of the mesh that each belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from fxcore.node_data.distributed_types import is_distributed
from pytest_fxgraph.captures.distributed_internals import process_groups
from pytest_fxgraph.ranks.world import ranks_text

_MESH_DESCRIPTION = "mesh_"  # begins the description of a group that a DeviceMesh made


class Communicator(NamedTuple):
    """A group of processes: its ranks in the world, ascending as torch has them, and its dimension of a mesh."""

    ranks: tuple[int, ...]
    dimension: str = ""
    number: int = 0  # among the groups of the same ranks, in the order in which every rank makes them

    @property
    def text(self) -> str:
        """Name the group for people: `tp`, or its ranks."""
        text = self.dimension or f"ranks {ranks_text(self.ranks)}"
        return text + (f" (group {self.number + 1} of these ranks)" if self.number else "")

    @property
    def identity(self) -> tuple[tuple[int, ...], int]:
        """Return a value that is equal for one group on all its ranks, and for no other group."""
        return self.ranks, self.number


def communicators_by_name(models: Iterable[Any] = ()) -> dict[str, Communicator]:
    """Return the groups of this process by torch's name; the meshes of the models' state name their dimensions."""
    found = {}
    numbers: dict[tuple[int, ...], int] = {}
    for group in process_groups():
        described = str(getattr(group, "group_desc", "") or "")
        dimension = described.removeprefix(_MESH_DESCRIPTION) if described.startswith(_MESH_DESCRIPTION) else ""
        ranks = tuple(torch.distributed.get_process_group_ranks(group))
        numbers[ranks] = numbers.get(ranks, -1) + 1
        found[str(group.group_name)] = Communicator(ranks, dimension, numbers[ranks])
    for mesh in _meshes_of(models):
        for dimension, name in _named_dimensions(mesh):
            if name in found and not found[name].dimension:
                found[name] = found[name]._replace(dimension=dimension)
    return found


def _meshes_of(models: Iterable[Any]) -> Iterator[Any]:
    for model in models:
        if isinstance(model, nn.Module):
            tensors: list[Any] = [*model.parameters(), *model.buffers()]
            yield from (tensor.device_mesh for tensor in tensors if is_distributed(tensor))
        elif hasattr(model, "mesh_dim_names"):
            yield model


def _named_dimensions(mesh: Any) -> Iterator[tuple[str, str]]:
    for place, dimension in enumerate(mesh.mesh_dim_names or ()):
        yield dimension, str(mesh.get_group(place).group_name)
