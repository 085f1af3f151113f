"""The ranks of a program: how many there are, their mesh, and the model of each."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_fxgraph.errors import ChoiceError

MeshSizes = Mapping[str, int] | Sequence[int]


@dataclass(frozen=True)
class World:
    """The ranks of a program and the sizes of its mesh by the names of its dimensions; no mesh if there are none."""

    size: int
    mesh: Mapping[str, int]

    @classmethod
    def of(cls, size: int | None, mesh: MeshSizes | None) -> World:
        """Return a world with a mesh of sizes, named or not; without a size, of the ranks of the mesh.

        Raises ChoiceError if the mesh has other ranks, or if there is neither a size nor a mesh.
        """
        sizes = dict(mesh) if isinstance(mesh, Mapping) else {f"dim{n}": length for n, length in enumerate(mesh or ())}
        product = math.prod(sizes.values())
        size = product if size is None and sizes else size
        if not isinstance(size, int) or size < 1:
            raise ChoiceError(
                f"world_size={size!r} is no number of ranks; give a whole number from 1 on, or the sizes of a mesh: as "
                "arguments, or for a test by @pytest.mark.fx(world_size=4) or @pytest.mark.fx(mesh={'dp': 2, 'tp': 2})"
            )
        if sizes and product != size:
            raise ChoiceError(
                f"a mesh of {' x '.join(map(str, sizes.values()))} has {product} ranks, and the program has {size}; "
                "change one of them"
            )
        return cls(size, sizes)

    @property
    def text(self) -> str:
        """Return the text of a golden: `8 ranks, mesh dp=2, tp=4`."""
        dimensions = ", ".join([f"{name}={size}" for name, size in self.mesh.items()])
        return f"{self.size} ranks" + (f", mesh {dimensions}" if dimensions else "")

    def model(self, build: Callable[..., Any], rank: int, device: str = "cpu") -> Any:
        """Build the model of a rank, which this process is. A builder of two arguments gets the mesh, too."""
        if not self.mesh:
            return build(rank)
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(device, tuple(self.mesh.values()), mesh_dim_names=tuple(self.mesh))
        return build(rank, mesh) if _takes_mesh(build) else build(rank)


def _takes_mesh(build: Callable[..., Any]) -> bool:
    try:
        inspect.signature(build).bind(0, None)
    except (TypeError, ValueError):  # a builtin has no signature
        return False
    return True


def ranks_text(ranks: Sequence[int]) -> str:
    """Write ranks in short, with spans: `0-3, 6`."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][-1] == rank - 1:
            spans[-1].append(rank)
        else:
            spans.append([rank])
    return ", ".join([f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans])
