"""Gradients of inputs and parameters, from random cotangents that are the same in both runs."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Collection, Iterator, Mapping

import torch
from torch import nn

from fxcore.state.held_state import HeldState
from pytest_fxgraph.equivalence.inputs import ArgumentCopy
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import ToleranceRule

# By name of a parameter or path of an input: "conv.weight", "input 0".
Gradients = Mapping[str, "torch.Tensor | None"]


def differentiable_parameters(now: HeldState, names: StateNames) -> dict[str, torch.Tensor]:
    """Return the parameters that require grad, by the names that both runs use."""
    return {
        names.name(state): state.tensor
        for state in now.tensors
        if isinstance(state.tensor, nn.Parameter) and state.tensor.requires_grad and not state.is_nested
    }


def gradients_of(
    output: object,
    parameters: Mapping[str, torch.Tensor],
    copied: ArgumentCopy,
    seed: int,
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> Gradients | None:
    """Return the gradients of a random weighted sum of all outputs; None if no output requires grad.

    Gradients are taken for `parameters` and for the leaves of `copied`. A gradient is None if no output depends on the
    tensor. The weights are first rounded to `dtypes`, by path: the dtypes of the run that this run is a reference for.
    """
    sources = {path: tensor for path, tensor in tensors_in(output, "output") if tensor.requires_grad}
    if not sources:
        return None
    leaves: dict[str, torch.Tensor] = {path: leaf for path, (leaf, _) in copied.leaves.items()}
    wanted = {**parameters, **leaves}
    rounded = dtypes or {}
    cotangents = [
        cotangent(path, tensor, seed, rounded.get(path, tensor.dtype)).to(tensor.dtype)
        for path, tensor in sources.items()
    ]
    found = torch.autograd.grad(list(sources.values()), list(wanted.values()), cotangents, allow_unused=True)
    by_name = dict(zip(wanted, found, strict=True))
    for path, (_, view) in copied.leaves.items():
        flat = by_name[path]
        by_name[path] = flat.as_strided(*view) if flat is not None else None
    return by_name


def compare_gradients(
    expected: Gradients, obtained: Gradients, comparison: OutputComparison, inputs: Collection[str] = ()
) -> Iterator[Mismatch]:
    """Yield a mismatch for each gradient that differs or is missing in one run. `inputs` are the paths of inputs."""
    comparison, rules = comparison.of_values(), rules_of_gradients(expected, comparison.rule, inputs)
    for name, gradient in expected.items():
        where = f"gradient of {name}"
        counterpart = obtained.get(name)
        if gradient is not None and counterpart is not None:
            of_one = dataclasses.replace(comparison, rule=rules[where])
            for mismatch in of_one.compare_tensors(gradient, counterpart, where):
                if mismatch.kind != "stride":  # autograd may choose the strides of a gradient
                    yield Mismatch("gradient", where, mismatch.description, mismatch.statistics)
        elif gradient is not None and name not in obtained:
            yield Mismatch("gradient", where, "exists in eager; the graph has no such parameter")
        elif gradient is not counterpart:
            has, lacks = ("the graph", "eager") if gradient is None else ("eager", "the graph")
            yield Mismatch("gradient", where, f"exists in {has} and not in {lacks}")


def rules_of_gradients(
    expected: Gradients, rule: ToleranceRule, inputs: Collection[str] = ()
) -> dict[str, ToleranceRule]:
    """Map the path of each gradient to its rule, which follows the magnitude of the gradients of its kind."""
    kinds: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for name, gradient in expected.items():
        if gradient is not None:
            kinds[name in inputs].append(gradient)
    of_kind = {is_input: rule.for_gradients(gradients) for is_input, gradients in kinds.items()}
    paths = {name: f"gradient of {name}" for name in expected}
    return {path: of_kind[name in inputs].for_path(path) for name, path in paths.items()}


def cotangent(path: str, output: torch.Tensor, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """Draw the weights of one output, of its shape and device.

    Each path has its own generator, so that an output without gradient does not change the weights of the others.
    """
    generator = torch.Generator().manual_seed(seed ^ zlib.crc32(path.encode()))
    wide = torch.complex128 if output.is_complex() else torch.float64
    return torch.randn(output.shape, dtype=wide, generator=generator).to(dtype=dtype, device=output.device)
