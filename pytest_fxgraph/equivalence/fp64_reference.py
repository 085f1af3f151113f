"""A run of the model in double precision that judges whether eager or the graph is nearer to it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fxcore.state.held_state import HeldState
from fxcore.state.readings import seed_generators
from fxcore.state.storage import copy_storage, flat_view, is_plain
from pytest_fxgraph.equivalence.error_statistics import agreement, measure
from pytest_fxgraph.equivalence.gradients import Gradients, differentiable_parameters, gradients_of
from pytest_fxgraph.equivalence.inputs import Arguments, copy_arguments
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import dense
from pytest_fxgraph.equivalence.run import RunSettings
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import OUTPUT, ToleranceRule
from pytest_fxgraph.errors import EagerError

# A graph that rounds in another order may be somewhat farther from the reference than eager by chance.
_ALLOWED_RATIO = 2.0
# The ratio among elements that were chosen because they differ. Among elements that differ much, the larger
# error likely comes from the run with the larger spread, by the square of the ratio of the spreads.
_ALLOWED_RATIO_OF_CHOSEN = 5.0
_ENOUGH_ELEMENTS = 8
# Gradients of model and graph agree in double precision within this part of the largest of their kind: constants of a
# graph may be rounded to float32. Gradients in single precision may then differ by the second part of their own size.
_AGREES_IN_DOUBLE = 1e-7
_MOVED_OVER_ZERO = 0.1


# By the paths that mismatches name: "output['logits']", "gradient of conv.weight".
ComparedTensors = Mapping[str, torch.Tensor]


def compared_tensors(output: Any, gradients: Gradients | None) -> dict[str, torch.Tensor]:
    """Return the tensors of one run that a run in double precision can judge."""
    found = dict(tensors_in(output, OUTPUT))
    found |= {f"gradient of {name}": value for name, value in (gradients or {}).items() if value is not None}
    return found


def filter_by_reference(
    mismatches: list[Mismatch], model: Any, settings: RunSettings, expected: ComparedTensors, obtained: ComparedTensors
) -> list[Mismatch]:
    """Drop values that are as near to double precision in the graph as in eager; add distances to the others.

    Raises EagerError if the model does not run in double precision.
    """
    judged = [mismatch for mismatch in mismatches if _is_of_values(mismatch, expected, obtained)]
    if not judged:
        return mismatches
    grads = any(mismatch.kind == "gradient" for mismatch in judged)
    try:
        widened = copy.deepcopy(model) if isinstance(model, nn.Module) else model
        names = StateNames(HeldState(widened))
        reference = _run_in_double(widened, names, settings, expected, grads=grads)
    except Exception as error:
        raise EagerError(
            "cannot judge values that differ by a run of the model in double precision, which raised "
            f"{type(error).__name__}: {error}; drop fp64_reference=True, or have the model follow its input's dtype"
        ) from error
    kept: list[Mismatch] = []
    for mismatch in mismatches:
        exact = reference.get(mismatch.where) if mismatch in judged else None
        if exact is None:
            kept.append(mismatch)
            continue
        if not _is_as_near(expected[mismatch.where], obtained[mismatch.where], exact):
            of_eager, of_graph = (_distance(tensors[mismatch.where], exact) for tensors in (expected, obtained))
            description = (
                f"{mismatch.description} (off from float64 by {of_graph:.3g} in the graph, {of_eager:.3g} in eager)"
            )
            kept.append(dataclasses.replace(mismatch, description=description))
    return kept


def without_rounding(
    mismatches: list[Mismatch],
    model: Any,
    graph: Any,
    settings: RunSettings,
    expected: ComparedTensors,
    obtained: ComparedTensors,
    rules: Callable[[str], ToleranceRule],
) -> list[Mismatch]:
    """Drop values if the graph is not farther from a run of the model in double precision than eager is.

    Double precision judges errors that are small beside the largest value. A sum of values of 1e4 is rounded by far
    more than the default atol, even if it ends near zero. An error of that size in an element that never met the large
    values is no rounding. If the model does not run in double precision, the largest value alone decides.

    Double precision also judges gradients, because rounding that moves the input of a relu over zero changes gradients
    by much, in eager or in the graph. Gradients then also agree if model and graph agree in double precision.
    """
    large: dict[str, Mismatch] = {}
    gradients: dict[str, Mismatch] = {}
    for mismatch in mismatches:
        if _is_of_values(mismatch, expected, obtained):
            rule, values = rules(mismatch.where), dense(expected[mismatch.where])
            tolerance = rule.grown(values)
            if tolerance is not None and measure(values, dense(obtained[mismatch.where]), tolerance) is None:
                large[mismatch.where] = mismatch
            if mismatch.kind == "gradient" and rule.is_default:
                gradients[mismatch.where] = mismatch
    if not large and not gradients:
        return mismatches
    reference, of_graph = _references(model, graph, settings, expected, has_gradients=bool(gradients))

    def is_explained(mismatch: Mismatch) -> bool:
        where = mismatch.where
        if large.get(where) is mismatch and _is_rounding(
            expected[where], obtained[where], reference.get(where), rules(where)
        ):
            return True
        if gradients.get(where) is not mismatch or where not in reference:
            return False
        if _is_as_near(expected[where], obtained[where], reference[where]):
            return True
        magnitude = rules(where).of_gradients or 0.0
        is_near = _distance(obtained[where], reference[where]) <= _MOVED_OVER_ZERO * _size(reference[where])
        return is_near and where in of_graph and (
            _distance(of_graph[where], reference[where]) <= _AGREES_IN_DOUBLE * magnitude
        )  # fmt: skip

    return [mismatch for mismatch in mismatches if not is_explained(mismatch)]


def _references(
    model: Any, graph: Any, settings: RunSettings, expected: ComparedTensors, *, has_gradients: bool
) -> tuple[ComparedTensors, ComparedTensors]:
    """Run the model in double precision, and for gradients the graph, too; return no tensors for a failed run."""
    grads = has_gradients or settings.grads
    try:
        # One copy for both keeps shared tensors shared, so parameters of the graph get the names of the model's.
        wide_model, wide_graph = copy.deepcopy((model, graph if has_gradients else None))
        names = StateNames(HeldState(wide_model))
        reference = _run_in_double(wide_model, names, settings, expected, grads=grads)
    except Exception:  # a model that does not run in double precision may raise any error
        return {}, {}
    if not isinstance(wide_graph, nn.Module):
        return reference, {}
    try:
        return reference, _run_in_double(wide_graph, names, settings, expected, grads=True)
    except Exception:  # the graph may have been made for one dtype
        return reference, {}


def _is_of_values(mismatch: Mismatch, expected: ComparedTensors, obtained: ComparedTensors) -> bool:
    is_of_values = mismatch.kind in ("value", "gradient") and mismatch.statistics is not None
    return is_of_values and mismatch.where in expected and mismatch.where in obtained


def _is_rounding(
    expected: torch.Tensor, obtained: torch.Tensor, reference: torch.Tensor | None, rule: ToleranceRule
) -> bool:
    """Return whether the elements that differ are as near to double precision in the graph as in eager."""
    if reference is None or reference.shape != expected.shape or reference.is_complex() != expected.is_complex():
        return True
    expected, obtained, reference = (dense(each) for each in (expected, obtained, reference))
    outside = ~agreement(expected, obtained, rule.for_tensor(expected))
    if int(outside.sum()) < _ENOUGH_ELEMENTS:  # in so few elements, chance decides whether eager or the graph is nearer
        return _is_as_near(expected, obtained, reference)
    of_graph, of_eager = (_distance(values[outside], reference[outside]) for values in (obtained, expected))
    return of_graph <= _ALLOWED_RATIO_OF_CHOSEN * of_eager


def _is_as_near(expected: torch.Tensor, obtained: torch.Tensor, reference: torch.Tensor | None) -> bool:
    """Return whether a tensor of the graph is as near to double precision as eager's; False without a reference."""
    return reference is not None and _distance(obtained, reference) <= _ALLOWED_RATIO * _distance(expected, reference)


def _run_in_double(
    module: Any, names: StateNames, settings: RunSettings, expected: ComparedTensors, *, grads: bool
) -> dict[str, torch.Tensor]:
    """Run a function, or a module after its conversion to double precision; run the backward if `grads` is True."""
    widened = module.double() if isinstance(module, nn.Module) else module
    copied = copy_arguments(widened_arguments(settings.arguments), with_gradients=grads)
    seed_generators(settings.seed)
    gradients = None
    # Gradients are asked for in inference mode, too, as the check itself asks for them.
    with torch.inference_mode(torch.is_inference_mode_enabled() and not grads), torch.set_grad_enabled(grads):
        with torch.autocast("cpu", enabled=False):
            output = widened(*copied.arguments.args, **copied.arguments.kwargs)
        if grads:
            parameters = differentiable_parameters(HeldState(widened), names)
            dtypes = {path: tensor.dtype for path, tensor in expected.items()}
            gradients = gradients_of(output, parameters, copied, settings.seed, dtypes)
    return {path: tensor.detach() for path, tensor in compared_tensors(output, gradients).items()}


def _size(tensor: torch.Tensor) -> float:
    return float(tensor.abs().square().mean().sqrt())


def widened_arguments(arguments: Arguments) -> Arguments:
    memo: dict[int, Any] = {id(tensor): _wide(tensor) for _, tensor in arguments.tensors()}
    args, kwargs = copy.deepcopy((arguments.args, arguments.kwargs), memo)
    return Arguments(args, kwargs)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    if is_plain(tensor) and tensor.is_floating_point():
        # Copy the whole memory, because strides and elements that share memory must keep their effect.
        flat = flat_view(copy_storage(tensor), tensor.dtype).double()
        return flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    # Copy a wide tensor, too, because the run may write into its inputs.
    return tensor.double() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor.clone()


def _distance(values: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the root mean square error, NaN if one value is NaN; infinite where shapes or kinds cannot be compared."""
    if values.shape != reference.shape or values.is_complex() != reference.is_complex():
        return float("inf")
    wide = values.detach().to(reference.dtype)
    wide, reference = (each.to_dense() if each.layout is not torch.strided else each for each in (wide, reference))
    return float((wide - reference).abs().square().mean().sqrt())
