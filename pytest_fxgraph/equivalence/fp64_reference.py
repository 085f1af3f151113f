"""Which of eager and graph is nearer to a run of the model in double precision?"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.error_statistics import agreement, measure
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import dense
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.rng import seed_all

# A graph that rounds in another order may be somewhat farther from the reference than eager by chance.
_ALLOWED_RATIO = 2.0
_ENOUGH_ELEMENTS = 8


def filter_by_reference(
    mismatches: list[Mismatch], model: Any, settings: RunSettings, expected: Any, obtained: Any
) -> list[Mismatch]:
    """Drop output values that are as near to double precision in the graph as in eager; add distances to the others.

    `expected` and `obtained` are the outputs of eager and graph.
    """
    if not any(mismatch.kind == "value" and mismatch.statistics for mismatch in mismatches):
        return mismatches
    reference = dict(tensors_in(_run_in_double(model, settings), "output"))
    in_eager, in_graph = dict(tensors_in(expected, "output")), dict(tensors_in(obtained, "output"))
    kept: list[Mismatch] = []
    for mismatch in mismatches:
        exact = reference.get(mismatch.where)
        if mismatch.kind != "value" or mismatch.statistics is None or exact is None:
            kept.append(mismatch)
            continue
        of_eager, of_graph = (_distance(outputs[mismatch.where], exact) for outputs in (in_eager, in_graph))
        if not of_graph <= _ALLOWED_RATIO * of_eager:  # NaN in one of them is no agreement
            description = (
                f"{mismatch.description} (off from float64 by {of_graph:.3g} in the graph, {of_eager:.3g} in eager)"
            )
            kept.append(dataclasses.replace(mismatch, description=description))
    return kept


def without_rounding_of_large_values(
    mismatches: list[Mismatch], model: Any, settings: RunSettings, expected: Any, obtained: Any, rule: ToleranceRule
) -> list[Mismatch]:
    """Drop output values whose error is small beside the largest value, if a run in double precision agrees.

    A sum of values of 1e4 is rounded by far more than the default atol, also where it ends near zero; but an error of
    that size in an element that never met the large ones is no rounding. Where the model does not run in double
    precision, the largest value alone decides.
    """
    in_eager, in_graph = dict(tensors_in(expected, "output")), dict(tensors_in(obtained, "output"))
    doubtful = []
    for mismatch in mismatches:
        if mismatch.kind == "value" and mismatch.statistics is not None and mismatch.where in in_eager:
            values, others = dense(in_eager[mismatch.where]), dense(in_graph[mismatch.where])
            tolerance = rule.grown(values)
            if tolerance is not None and measure(values, others, tolerance) is None:
                doubtful.append(mismatch)
    if not doubtful:
        return mismatches
    try:
        reference = dict(tensors_in(_run_in_double(model, settings), "output"))
    except Exception:  # whatever a model raises that does not run in double precision
        reference = {}
    explained = {
        mismatch.where
        for mismatch in doubtful
        if _is_rounding(in_eager[mismatch.where], in_graph[mismatch.where], reference.get(mismatch.where), rule)
    }
    return [mismatch for mismatch in mismatches if mismatch not in doubtful or mismatch.where not in explained]


def _is_rounding(
    expected: torch.Tensor, obtained: torch.Tensor, reference: torch.Tensor | None, rule: ToleranceRule
) -> bool:
    """Tell whether the elements that differ are as near to double precision in the graph as in eager."""
    if reference is None or reference.shape != expected.shape or reference.is_complex() != expected.is_complex():
        return True
    expected, obtained, reference = (dense(each) for each in (expected, obtained, reference))
    outside = ~agreement(expected, obtained, rule.for_tensor(expected))
    if int(outside.sum()) < _ENOUGH_ELEMENTS:  # chance decides which of the two is nearer in so few
        return _distance(obtained, reference) <= _ALLOWED_RATIO * _distance(expected, reference)
    of_graph, of_eager = (_distance(values[outside], reference[outside]) for values in (obtained, expected))
    return of_graph <= _ALLOWED_RATIO * of_eager


def _run_in_double(model: Any, settings: RunSettings) -> Any:
    """Run a copy of the model with all floats in double precision."""
    widened = copy.deepcopy(model).double() if isinstance(model, nn.Module) else model
    arguments = _widened(settings.arguments)
    seed_all(settings.seed)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return widened(*arguments.args, **arguments.kwargs)


def _widened(arguments: Arguments) -> Arguments:
    memo: dict[int, Any] = {id(tensor): _wide(tensor) for _, tensor in arguments.tensors()}
    args, kwargs = copy.deepcopy((arguments.args, arguments.kwargs), memo)
    return Arguments(args, kwargs)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    # A copy even of what is wide already: the run may write into its inputs.
    return tensor.double() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor.clone()


def _distance(values: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the root mean square error; infinite where shapes or kinds cannot be compared."""
    if values.shape != reference.shape or values.is_complex() != reference.is_complex():
        return float("inf")
    wide = values.detach().to(reference.dtype)
    wide, reference = (each.to_dense() if each.layout is not torch.strided else each for each in (wide, reference))
    return float((wide - reference).abs().square().mean().sqrt())
