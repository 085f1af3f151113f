"""Who is right where eager and graph differ? A run of the model in double precision judges."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.rng import seed_all
from pytest_fxgraph.equivalence.run import RunSettings

# A graph that rounds in another order may be as far from the truth as eager is, or somewhat farther by chance.
_FARTHER = 2.0


def judged_by_reference(
    mismatches: list[Mismatch], model: Any, settings: RunSettings, expected: Any, obtained: Any
) -> list[Mismatch]:
    """Drop output values that are as near to the reference in the graph as in eager; say of others how far each is."""
    if not any(mismatch.kind == "value" and mismatch.statistics for mismatch in mismatches):
        return mismatches
    reference = dict(tensors_in(_run_in_double(model, settings), "output"))
    in_eager, in_graph = dict(tensors_in(expected, "output")), dict(tensors_in(obtained, "output"))
    kept: list[Mismatch] = []
    for mismatch in mismatches:
        judge = reference.get(mismatch.where)
        if mismatch.kind != "value" or mismatch.statistics is None or judge is None:
            kept.append(mismatch)
            continue
        of_eager, of_graph = (_distance(side[mismatch.where], judge) for side in (in_eager, in_graph))
        if not of_graph <= _FARTHER * of_eager:  # NaN in one of them is no agreement
            words = f"{mismatch.words} (off from float64 by {of_graph:.3g} in the graph, {of_eager:.3g} in eager)"
            kept.append(dataclasses.replace(mismatch, words=words))
    return kept


def _run_in_double(model: Any, settings: RunSettings) -> Any:
    """Run a copy of the model with every float widened; the model itself stays as it is."""
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
    """Give the root of the mean squared distance; infinite where shapes or kinds cannot be compared."""
    if values.shape != reference.shape or values.is_complex() != reference.is_complex():
        return float("inf")
    wide = values.detach().to(reference.dtype)
    wide, reference = (each.to_dense() if each.layout is not torch.strided else each for each in (wide, reference))
    return float((wide - reference).abs().square().mean().sqrt())
