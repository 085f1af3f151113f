"""A run of the model in double precision that judges whether eager or the graph is nearer to it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
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


@dataclasses.dataclass(frozen=True)
class DoubleJudge:
    """Judges values that differ by a run of the model in double precision, and of the graph for gradients."""

    model: Any
    graph: Any
    settings: RunSettings
    expected: ComparedTensors
    obtained: ComparedTensors
    pairs: Mapping[str, str]  # names in the model, by path of a copy's state in the graph

    def filter_by_reference(self, mismatches: list[Mismatch]) -> list[Mismatch]:
        """Drop values that are as near to double precision in the graph as in eager; add distances to the others.

        Raises EagerError if the model does not run in double precision.
        """
        judged = [mismatch for mismatch in mismatches if self._is_of_values(mismatch)]
        if not judged:
            return mismatches
        grads = any(mismatch.kind == "gradient" for mismatch in judged)
        try:
            widened = copy.deepcopy(self.model) if isinstance(self.model, nn.Module) else self.model
            reference = self._run_in_double(widened, StateNames(HeldState(widened)), grads=grads)
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
            of_eager, of_graph = (_distance(run[mismatch.where], exact) for run in (self.expected, self.obtained))
            if not of_graph <= _ALLOWED_RATIO * of_eager or of_graph == math.inf:
                distances = f"(off from float64 by {of_graph:.3g} in the graph, {of_eager:.3g} in eager)"
                kept.append(dataclasses.replace(mismatch, description=f"{mismatch.description} {distances}"))
        return kept

    def without_rounding(self, mismatches: list[Mismatch], rules: Callable[[str], ToleranceRule]) -> list[Mismatch]:
        """Drop values if the graph is not farther from a run of the model in double precision than eager is.

        Double precision judges errors that are small beside the largest value. A sum of values of 1e4 is rounded by far
        more than the default atol, even if it ends near zero. An error of that size in an element that never met the
        large values is no rounding. If the model does not run in double precision, the largest value alone decides.

        Double precision also judges gradients, because rounding that moves the input of a relu over zero changes
        gradients by much, in eager or in the graph. Gradients then also agree if model and graph agree in double
        precision.
        """
        large: dict[str, Mismatch] = {}
        gradients: dict[str, Mismatch] = {}
        for mismatch in filter(self._is_of_values, mismatches):
            where = mismatch.where
            rule, values = rules(where), dense(self.expected[where])
            tolerance = rule.grown(values)
            if tolerance is not None and measure(values, dense(self.obtained[where]), tolerance) is None:
                large[where] = mismatch
            if mismatch.kind == "gradient" and rule.is_default:
                gradients[where] = mismatch
        if not large and not gradients:
            return mismatches
        reference, of_graph = self._references(has_gradients=bool(gradients))

        def is_explained(mismatch: Mismatch) -> bool:
            where = mismatch.where
            is_large, is_gradient = large.get(where) is mismatch, gradients.get(where) is mismatch
            if not is_large and not is_gradient:
                return False
            expected, obtained, exact = self.expected[where], self.obtained[where], reference.get(where)
            if is_large and _is_rounding(expected, obtained, exact, rules(where)):
                return True
            if not is_gradient or exact is None:
                return False
            if _is_as_near(expected, obtained, exact):
                return True
            most = _AGREES_IN_DOUBLE * (rules(where).of_gradients or 0.0)
            is_near = _distance(obtained, exact) <= _MOVED_OVER_ZERO * _size(exact)
            return is_near and where in of_graph and _distance(of_graph[where], exact) <= most

        return [mismatch for mismatch in mismatches if not is_explained(mismatch)]

    def _references(self, *, has_gradients: bool) -> tuple[ComparedTensors, ComparedTensors]:
        """Run the model in double precision, and for gradients the graph, too; return no tensors for a failed run."""
        found: list[ComparedTensors] = [{}, {}]
        # A model or graph that does not run in double precision may raise any error.
        with contextlib.suppress(Exception):
            # One copy for both keeps shared tensors shared, so parameters of the graph get the names of the model's.
            model, graph = copy.deepcopy((self.model, self.graph if has_gradients else None))
            names = StateNames(HeldState(model), self.pairs)
            found[0] = self._run_in_double(model, names, grads=has_gradients or self.settings.grads)
            if isinstance(graph, nn.Module):
                found[1] = self._run_in_double(graph, names, grads=True)
        return found[0], found[1]

    def _is_of_values(self, mismatch: Mismatch) -> bool:
        is_of_values = mismatch.kind in ("value", "gradient") and mismatch.statistics is not None
        return is_of_values and mismatch.where in self.expected and mismatch.where in self.obtained

    def _run_in_double(self, module: Any, names: StateNames, *, grads: bool) -> ComparedTensors:
        """Run a function, or a module after its conversion to double precision; run the backward if `grads` is True."""
        widened = module.double() if isinstance(module, nn.Module) else module
        copied = copy_arguments(widened_arguments(self.settings.arguments), with_gradients=grads)
        seed_generators(self.settings.seed)
        gradients = None
        # Gradients are asked for in inference mode, too, as the check itself asks for them.
        with torch.inference_mode(torch.is_inference_mode_enabled() and not grads), torch.set_grad_enabled(grads):
            with torch.autocast("cpu", enabled=False):
                output = widened(*copied.arguments.args, **copied.arguments.kwargs)
            if grads:
                parameters = differentiable_parameters(HeldState(widened), names)
                dtypes = {path: tensor.dtype for path, tensor in self.expected.items()}
                gradients = gradients_of(output, parameters, copied, self.settings.seed, dtypes)
        return {path: tensor.detach() for path, tensor in compared_tensors(output, gradients).items()}


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


def _is_as_near(expected: torch.Tensor, obtained: torch.Tensor, reference: torch.Tensor) -> bool:
    """Return whether a tensor of the graph is as near to double precision as eager's."""
    return _distance(obtained, reference) <= _ALLOWED_RATIO * _distance(expected, reference)


def _size(tensor: torch.Tensor) -> float:
    return float(tensor.abs().square().mean().sqrt())


def widened_arguments(arguments: Arguments) -> Arguments:
    return arguments.copied({id(tensor): _wide(tensor) for _, tensor in arguments.tensors()})


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
        return math.inf
    wide = values.detach().to(reference.dtype)
    wide, reference = (each.to_dense() if each.layout is not torch.strided else each for each in (wide, reference))
    return float((wide - reference).abs().square().mean().sqrt())
