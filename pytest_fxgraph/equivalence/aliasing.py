"""Shared storage of tensors: of outputs with inputs, with the module's state, and with one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from fxcore.state.storage import has_storage, storage_of
from pytest_fxgraph.equivalence.mismatch import Mismatch

NamedTensors = Iterable[tuple[str, torch.Tensor]]
# By output path: the other tensors of the storage, each with its distance in elements (0 where the dtypes differ).
Sharing = Mapping[str, frozenset[tuple[str, int]]]


def sharing_of_outputs(
    outputs: NamedTensors, inputs: NamedTensors, state: Mapping[int, NamedTensors] | None = None
) -> Sharing:
    """Map each output's path to the inputs, earlier outputs and state tensors with the same storage.

    `state` holds the state tensors by the storage they use, as `storage_of` gives it.
    """
    holders: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in inputs:
        if has_storage(tensor):
            holders.setdefault(storage_of(tensor), []).append((name, tensor))
    sharing: dict[str, frozenset[tuple[str, int]]] = {}
    for path, tensor in outputs:
        if not has_storage(tensor):
            continue
        storage = storage_of(tensor)
        known = holders.setdefault(storage, [])
        of_state = state.get(storage, ()) if state is not None else ()
        sharing[path] = frozenset((name, _distance(tensor, other)) for name, other in [*known, *of_state])
        known.append((path, tensor))
    return sharing


def compare_sharing(expected: Sharing, obtained: Sharing) -> Iterator[Mismatch]:
    """Yield a mismatch for each output that shares its storage differently in the two runs."""
    for path in expected:
        if path not in obtained or expected[path] == obtained[path]:
            continue
        in_eager = {name for name, _ in expected[path]}
        in_graph = {name for name, _ in obtained[path]}
        if in_eager == in_graph:
            yield Mismatch("aliasing", path, f"begins at another place of the storage of {_names(in_eager)}")
        else:
            yield Mismatch(
                "aliasing",
                path,
                f"shares storage with {_names(in_eager)} in eager, with {_names(in_graph)} in the graph",
            )


def _distance(tensor: torch.Tensor, other: torch.Tensor) -> int:
    return int(tensor.storage_offset() - other.storage_offset()) if tensor.dtype == other.dtype else 0


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) if names else "nothing"
