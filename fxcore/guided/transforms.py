"""Transforms of torch.func, and others, as functions of a graph: targets of nodes of a trace with an example.

Each takes the graph of the transformed function and its operands. Operands that the user's function did not name as
arguments, such as parameters of the model, come last.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import checkpoint as checkpoints


def _indexing() -> Any:
    """Return the mode in which torch's masks of flex attention index tensors with mapped numbers."""
    return importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op").TransformGetItemToIndex()


# Later releases map such an index without the mode.
_INDEXING = _indexing if torch.torch_version.TorchVersion(torch.__version__) < "2.13" else contextlib.nullcontext


def vmap(function: Callable[..., Any], operands: Sequence[Any], **options: Any) -> Any:
    """Return `torch.vmap(function, **options)(*operands)`."""
    with _INDEXING():
        return torch.vmap(function, **options)(*operands)


def _of_torch(name: str) -> Callable[..., Any]:
    """Return a function with the name of a transform of torch.func, which takes the operands as a sequence."""
    transform = getattr(torch.func, name)

    def call(function: Callable[..., Any], operands: Sequence[Any], **options: Any) -> Any:
        return transform(function, **options)(*operands)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Return `torch.func.{name}(function, **options)(*operands)`."
    return call


grad, grad_and_value = _of_torch("grad"), _of_torch("grad_and_value")
jacrev, jacfwd, hessian = map(_of_torch, ("jacrev", "jacfwd", "hessian"))


def vjp(function: Callable[..., Any], operands: Sequence[Any], cotangents: Any, argnums: tuple[int, ...]) -> Any:
    """Return the products of `cotangents` with the Jacobian of `function`, for the operands at `argnums`."""
    pulled_back = torch.func.vjp(_of_chosen(function, operands, argnums), *[operands[each] for each in argnums])[1]
    return pulled_back(cotangents)


def jvp(
    function: Callable[..., Any],
    operands: Sequence[Any],
    tangents: Sequence[Any],
    argnums: tuple[int, ...],
    **options: Any,
) -> Any:
    """Return the result of `function`, and the product of its Jacobian with `tangents` of the operands at `argnums`."""
    chosen = tuple([operands[each] for each in argnums])
    return torch.func.jvp(_of_chosen(function, operands, argnums), chosen, tuple(tangents), **options)


def associative_scan(
    function: Callable[..., Any], rows: Sequence[Any], operands: Sequence[Any], dim: int = 0
) -> tuple[Any, ...]:
    """Combine the rows of tensors as torch's `associative_scan` does with `combine_mode="generic"`."""
    # Not at the top: with torch 2.6, this module imports Dynamo. Its package has a function of the same name.
    scans = importlib.import_module("torch._higher_order_ops.associative_scan")
    return tuple(scans.generic_associative_scan(lambda *pairs: function(*pairs, *operands), list(rows), dim))


def checkpoint(function: Callable[..., Any], inputs: Sequence[Any], operands: Sequence[Any], **options: Any) -> Any:
    """Return `checkpoint(function, *inputs, **options)` of torch. Operands come from outside of the function."""

    def call(*given: Any) -> Any:
        return function(*given, *operands)

    return checkpoints.checkpoint(call, *inputs, **options)


def _of_chosen(function: Callable[..., Any], operands: Sequence[Any], argnums: tuple[int, ...]) -> Callable[..., Any]:
    def call(*chosen: Any) -> Any:
        given = list(operands)
        for position, value in zip(argnums, chosen, strict=True):
            given[position] = value
        return function(*given)

    return call
