"""Which tensors share storage: outputs with inputs, with the module's state, and with one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch

from pytest_fxgraph.equivalence.mismatch import Mismatch

NamedTensors = Iterable[tuple[str, torch.Tensor]]
# By output path: the storage's other holders, each with the distance in elements where both look at one dtype.
Sharing = Mapping[str, frozenset[tuple[str, int]]]


def sharing_of_outputs(
    outputs: NamedTensors, inputs: NamedTensors, state: Mapping[int, NamedTensors] | None = None
) -> Sharing:
    """Tell for each output tensor with which inputs, earlier outputs and state, given by storage, it shares storage."""
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
    """Yield a mismatch for each output that shares storage in one lane and not so in the other."""
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


def storage_of(tensor: torch.Tensor) -> int:
    """Give the identity of a tensor's storage, good while the tensor lives."""
    return int(tensor.untyped_storage()._cdata)


def has_storage(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has one storage with something in it."""
    return tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0


def has_all_memory(tensor: torch.Tensor) -> bool:
    """Tell whether a storage is as large as its tensor needs: where somebody freed it, reading ends the process."""
    if tensor.layout is not torch.strided or tensor.is_nested or not tensor.numel():
        return True
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    needed = int(tensor.storage_offset() + steps + 1) * tensor.element_size()
    return type(tensor.data) is not torch.Tensor or tensor.untyped_storage().nbytes() >= needed


def _distance(tensor: torch.Tensor, other: torch.Tensor) -> int:
    return int(tensor.storage_offset() - other.storage_offset()) if tensor.dtype == other.dtype else 0


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) if names else "nothing"
