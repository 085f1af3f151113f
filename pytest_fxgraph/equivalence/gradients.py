"""Gradients of inputs and parameters, from random cotangents that are the same in both runs."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Collection, Iterator, Mapping

import torch
from torch import nn

from pytest_fxgraph.equivalence.inputs import ArgumentCopy
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state.module_state import ModuleState
from pytest_fxgraph.equivalence.state_changes import StateNames

# By name of a parameter or path of an input: "conv.weight", "input 0".
Gradients = Mapping[str, "torch.Tensor | None"]


def differentiable_parameters(now: ModuleState, names: StateNames) -> dict[str, torch.Tensor]:
    """Return the parameters that require grad, by the names that both runs use."""
    return {
        names.name(state): state.tensor
        for state in now.tensors
        if isinstance(state.tensor, nn.Parameter) and state.tensor.requires_grad and not state.is_nested
    }


def gradients_of(
    output: object, parameters: Mapping[str, torch.Tensor], copied: ArgumentCopy, seed: int
) -> Gradients | None:
    """Return the gradients of a random weighted sum of all outputs; None if no output requires grad.

    They are taken for `parameters` and for the leaves of `copied`; one is None where nothing depends on it.
    """
    sources = {path: tensor for path, tensor in tensors_in(output, "output") if tensor.requires_grad}
    if not sources:
        return None
    leaves: dict[str, torch.Tensor] = {path: leaf for path, (leaf, _) in copied.leaves.items()}
    wanted = {**parameters, **leaves}
    cotangents = [cotangent(path, tensor, seed) for path, tensor in sources.items()]
    found = torch.autograd.grad(list(sources.values()), list(wanted.values()), cotangents, allow_unused=True)
    by_name = dict(zip(wanted, found, strict=True))
    for path, (_, view) in copied.leaves.items():
        flat = by_name[path]
        by_name[path] = flat.as_strided(*view) if flat is not None else None
    return by_name


def compare_gradients(
    expected: Gradients, obtained: Gradients, comparison: OutputComparison, inputs: Collection[str] = ()
) -> Iterator[Mismatch]:
    """Yield a mismatch for each gradient that is missing in one run, or differs. `inputs` names those of inputs."""
    kinds: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for name, gradient in expected.items():
        if gradient is not None:
            kinds[name in inputs].append(gradient)
    comparisons = {
        is_input: dataclasses.replace(comparison, rule=comparison.rule.for_gradients(gradients))
        for is_input, gradients in kinds.items()
    }
    for name, gradient in expected.items():
        where = f"gradient of {name}"
        if name not in obtained:
            if gradient is not None:
                yield Mismatch("gradient", where, "exists in eager; the graph has no such parameter")
            continue
        counterpart = obtained[name]
        if gradient is None and counterpart is None:
            continue
        if gradient is None or counterpart is None:
            has, lacks = ("the graph", "eager") if gradient is None else ("eager", "the graph")
            yield Mismatch("gradient", where, f"exists in {has} and not in {lacks}")
            continue
        for mismatch in comparisons[name in inputs].compare_tensors(gradient, counterpart, where):
            if mismatch.kind != "stride":  # autograd may choose the strides of a gradient
                yield Mismatch("gradient", where, mismatch.description, mismatch.statistics)


def cotangent(path: str, output: torch.Tensor, seed: int) -> torch.Tensor:
    """Draw the weights of one output, of its shape, dtype and device.

    Each path has its own generator, so that an output without gradient does not change the weights of the others.
    """
    generator = torch.Generator().manual_seed(seed ^ zlib.crc32(path.encode()))
    dtype = torch.complex128 if output.is_complex() else torch.float64
    drawn = torch.randn(output.shape, dtype=dtype, generator=generator)
    return drawn.to(dtype=output.dtype, device=output.device)
