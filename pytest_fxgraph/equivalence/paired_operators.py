"""The pairs of operators of two runs, and the comparison of their results."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxcore.state.storage import wrapped_tensors
from pytest_fxgraph.compare.sequence_alignment import common_subsequence
from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.operator_trace import Event
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.tolerance import Tolerance

_EXACT = Tolerance(0.0, 0.0)


def paired_operators(expected: Sequence[Event], obtained: Sequence[Event]) -> list[tuple[int, int]]:
    """Pair the operators of two runs by name and order; return pairs of positions."""
    return _pairs([_paired_name(event) for event in expected], [_paired_name(event) for event in obtained])


def _paired_name(event: Event) -> str:
    """Return the name that pairs operators: an exported graph calls linear.default for linear."""
    return event.name.partition(".")[0].rstrip("_")


def _pairs(expected: list[str], obtained: list[str]) -> list[tuple[int, int]]:
    if expected == obtained:
        return [(index, index) for index in range(len(expected))]
    numbers: dict[str, int] = {}
    expected_ids, obtained_ids = ([numbers.setdefault(name, len(numbers)) for name in names]
                                  for names in (expected, obtained))  # fmt: skip
    found = common_subsequence(expected_ids, obtained_ids)
    if found is not None:
        return found
    # Too little in common to be aligned: only the common beginning is certain.
    same = [name == counterpart for name, counterpart in zip(expected, obtained, strict=False)]
    head = same.index(False) if False in same else len(same)
    return [(index, index) for index in range(head)]


def outputs_differ(expected: Event, obtained: Event, comparison: OutputComparison) -> bool:
    """Return whether two operators returned different values; values that were not kept do not differ."""
    if expected.outputs is None or obtained.outputs is None:
        return False
    if len(expected.outputs) != len(obtained.outputs):
        return True
    return any(
        mismatch.kind not in ("stride", "requires_grad")
        for pair in zip(expected.outputs, obtained.outputs, strict=True)
        for mismatch in comparison.compare_tensors(*pair, "")
    )


def largest_error(expected: Sequence[torch.Tensor], obtained: Sequence[torch.Tensor]) -> float | None:
    """Return the largest absolute error of several tensors; None if they cannot be measured against each other."""
    if any(tensor.is_nested for tensor in (*expected, *obtained)):
        return None
    if [(tensor.shape, tensor.dtype) for tensor in expected] != [(tensor.shape, tensor.dtype) for tensor in obtained]:
        return None
    found = [
        measure(one, other, _EXACT)
        for one, other in zip(expected, obtained, strict=True)
        if one.layout is torch.strided and not (wrapped_tensors(one) or wrapped_tensors(other))
    ]
    return max((statistics.largest_absolute.error for statistics in found if statistics is not None), default=0.0)


def described(tensor: torch.Tensor) -> str:
    """Return dtype, shape and range of a tensor."""
    if tensor.is_nested:
        return f"nested {str(tensor.dtype).removeprefix('torch.')} of {tensor.size(0)}"
    kind = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if not tensor.numel() or tensor.is_meta or tensor.is_complex() or tensor.layout is not torch.strided:
        return kind
    if wrapped_tensors(tensor):
        return f"{type(tensor).__name__} of {kind}"
    wide = tensor.double()
    return f"{kind} in {float(wide.min()):.4g}..{float(wide.max()):.4g}, mean {float(wide.mean()):.4g}"
