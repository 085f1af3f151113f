"""What the lanes did to their inputs in place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.outputs import OutputComparison


def compare_arguments(
    expected: Arguments, obtained: Arguments, before: Arguments, comparison: OutputComparison
) -> Iterator[Mismatch]:
    """Yield a mismatch for every input that the two lanes left in different states."""
    # What makes two outputs equal in the eyes of a user's hook says nothing of what may be done to an input.
    plain = dataclasses.replace(comparison, requires_grad=False, own_comparison=None)
    originals = dict(before.tensors())
    for (where, after_eager), (_, after_graph) in zip(expected.named(), obtained.named(), strict=True):
        for mismatch in plain.compare(after_eager, after_graph, where):
            words = _who_changed(mismatch.where, originals, expected, obtained, plain) or (
                f"differs after the calls: it {mismatch.words}"
            )
            yield Mismatch("mutation", mismatch.where, words, mismatch.statistics)


def _who_changed(
    where: str,
    originals: dict[str, torch.Tensor],
    expected: Arguments,
    obtained: Arguments,
    comparison: OutputComparison,
) -> str | None:
    """Say which lane changed a tensor; None where that cannot be told from the tensors alone."""
    original, in_eager, in_graph = (tensors.get(where) for tensors in (
        originals, dict(expected.tensors()), dict(obtained.tensors())))  # fmt: skip
    if original is None or in_eager is None or in_graph is None:
        return None
    by_eager = any(comparison.compare_tensors(original, in_eager, where))
    by_graph = any(comparison.compare_tensors(original, in_graph, where))
    if by_eager and by_graph:
        return "was changed in place by eager and by the graph, to different values"
    if not by_eager and not by_graph:
        return None
    return f"was changed in place by {'eager, not by the graph' if by_eager else 'the graph, not by eager'}"
