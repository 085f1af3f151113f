"""Which of eager and graph is nearer to a run of the model in double precision?"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import nn

from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.rng import seed_all

# A graph that rounds in another order may be somewhat farther from the reference than eager by chance.
_ALLOWED_RATIO = 2.0


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
