"""Values that could have failed, by the definition of `pytest_fxgraph.vacuity`: finite values that are not zeros."""

from __future__ import annotations

import dataclasses

import torch

from fxcore.state.storage import has_values, wrapped_tensors
from pytest_fxgraph.equivalence.gradients import rules_of_gradients
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import CheckContext
from pytest_fxgraph.equivalence.nested_values import tensors_in, walk
from pytest_fxgraph.equivalence.outputs import EXACTLY, OutputComparison, dense, has_finite_value
from pytest_fxgraph.equivalence.run import RunResult
from pytest_fxgraph.equivalence.tolerance import OUTPUT, largest_magnitude
from pytest_fxgraph.errors import VacuousCheckError
from pytest_fxgraph.vacuity import vacuous_error

_OF_LEAVES = frozenset(("dtype", "device", "layout", "strides", "requires_grad", "aliasing"))  # checks of outputs alone


def could_fail(expected: RunResult, given: Arguments, comparison: OutputComparison) -> bool:
    """Return whether a check of eager's run would catch a wrong graph, as one that returns zeros.

    Integers, bools and Python values are compared exactly, so a check with one of these could fail. None and a tensor
    that is empty, on the meta device, or without a finite value cannot fail. A check without "values" asks
    for something else, which needs an output if it is a fact of outputs.
    """
    leaves = [(where, leaf) for where, leaf in walk(expected.output, OUTPUT) if leaf is not None]
    if "values" not in comparison.checks:
        return bool(leaves) or not _OF_LEAVES.issuperset(comparison.checks)
    if not all(comparison.would_match_zeros(leaf, where) for where, leaf in leaves):
        return True
    inputs = dict(given.tensors())
    rules = rules_of_gradients(expected.gradients or {}, comparison.rule, inputs)
    gradients = zip(rules.items(), (expected.gradients or {}).values(), strict=True)
    others = [(where, gradient, rule) for (where, rule), gradient in gradients]
    if "state" in comparison.checks:
        others += [(state.label, state.tensor, comparison.rule) for state in expected.state.changed.values()]
    if "mutation" in comparison.checks:
        others += [
            (where, tensor, comparison.rule)
            for where, tensor in expected.arguments.tensors()
            if where not in inputs or any(EXACTLY.compare_tensors(inputs[where], tensor, ""))
        ]
    return not all(
        dataclasses.replace(comparison, rule=rule).would_match_zeros(tensor, where, is_output=False)
        for where, tensor, rule in others
        if tensor is not None
    )


def vacuous_values_error(expected: RunResult, comparison: OutputComparison, context: CheckContext) -> VacuousCheckError:
    """Return the error of a check that could not have failed."""
    tensors = tensors_in(expected.output, OUTPUT)
    largest = largest_magnitude(tensor for _, tensor in tensors)
    empty = [f"{where} {words}" for where, tensor in tensors if (words := _lack_of_values(tensor))]
    if not tensors:
        problem, remedy = "the model returns no value and changes no state", "Return the values to compare"
    elif empty and not largest:
        problem, remedy = empty[0], "Give inputs for which the model returns finite values"
    else:
        where, tensor = tensors[0]
        tolerance = comparison.rule.for_path(where).for_tensor(tensor)
        problem = (
            f"a graph that gives zeros would pass, too. No magnitude in the output exceeds {largest:.3g}, and {where} "
            f"is compared with {tolerance}"
        )
        smaller = "" if tolerance.has_thresholds else ", or give a smaller atol"
        remedy = f"Initialise the model so that its output is not zero, scale its weights or inputs{smaller}"
    return vacuous_error(f"comparing eager and {context.subject}{context}", problem, remedy)


def _lack_of_values(tensor: torch.Tensor) -> str | None:
    """Say why a tensor has no value that could differ; None if the tensor has a finite value."""
    if not has_values(tensor):
        return "has no values on the meta device"
    if not tensor.numel():
        return "is empty"
    if tensor.is_nested or wrapped_tensors(tensor) or has_finite_value(dense(tensor)):
        return None
    return "holds only NaN and infinities"
