"""Sizes of a model's inputs that a graph of the model leaves free: another size is run, and eager and graph agree.

Eager decides first: a size that the model takes in one value alone (the channels of a convolution) does not count. The
sizes of one value are changed together, and each alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.reach.outcome import run
from benchmarks.reach.time_limit import OutOfTimeError, at_most
from benchmarks.reach.values import difference
from fixtures.reach.model import ReachModel
from fxcore import symbolic_trace

Data = dict[str, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Place = tuple[int, int]  # the number of a tensor among the inputs, and a dimension

_MOST_ALONE = 6  # dimensions of one size that are changed alone


def free_sizes_of(model: ReachModel, limit: float) -> Data:
    """Count the sizes that eager takes in another value, and for each way the sizes that its graph leaves free.

    A way without a graph has the class of its error in place of the count.
    """
    module = model.build()
    changed = [(places, inputs) for places, inputs in other_inputs(model.inputs()) if _runs(module, inputs, limit)]
    found: Data = {"eager": len({place for places, _ in changed for place in places})}
    for way, each in SIZE_WAYS.items():
        try:
            with at_most(limit):
                call = each.capture(model.build(), model.inputs())
        except (Exception, OutOfTimeError) as error:
            found[way] = type(error).__name__
            continue
        agreeing = [places for places, inputs in changed if _agrees(model, call, inputs, limit)]
        found[way] = len({place for places in agreeing for place in places})
    return found


def other_inputs(arguments: Arguments) -> Iterator[tuple[list[Place], Callable[[], Arguments]]]:
    """Yield the places of changed sizes, and a function that makes the inputs."""
    leaves, structure = pytree.tree_flatten(arguments)
    places: dict[int, list[Place]] = {}
    for number, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            for dimension, size in enumerate(leaf.shape):
                places.setdefault(size, []).append((number, dimension))
    for size, group in places.items():
        alone = [[place] for place in group[:_MOST_ALONE]] if len(group) > 1 else []
        for chosen in (group, *alone):
            for other in (size + 1, 2 * size):
                yield (
                    chosen,
                    lambda chosen=chosen, other=other: pytree.tree_unflatten(  # type: ignore[misc]
                        [_resized(leaf, number, chosen, other) for number, leaf in enumerate(leaves)], structure
                    ),
                )


def _resized(leaf: Any, number: int, places: list[Place], size: int) -> Any:
    """Return a tensor of another size with the example's values, in another order."""
    dimensions = [dimension for each, dimension in places if each == number]
    if not dimensions:
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
    shape = [size if dimension in dimensions else each for dimension, each in enumerate(leaf.shape)]
    order = torch.randint(0, leaf.numel(), (math.prod(shape),), generator=torch.Generator().manual_seed(0))
    return leaf.reshape(-1)[order].reshape(shape)


def _runs(module: nn.Module, inputs: Callable[[], Arguments], limit: float) -> bool:
    try:
        with at_most(limit):
            run(module, inputs())
    except (Exception, OutOfTimeError):
        return False
    return True


def _agrees(model: ReachModel, call: Callable[..., Any], inputs: Callable[[], Arguments], limit: float) -> bool:
    try:
        with at_most(limit):
            return difference(run(model.build(), inputs()), run(call, inputs())) is None
    except (Exception, OutOfTimeError):
        return False


def _with_examples(module: nn.Module, arguments: Arguments) -> Callable[..., Any]:
    args, kwargs = arguments
    trace: Any = symbolic_trace
    return trace(module, example_inputs=args, example_kwargs=kwargs, enforce_guards=True)  # type: ignore[no-any-return]


def _export(module: nn.Module, arguments: Arguments) -> Callable[..., Any]:
    shapes = torch.export.ShapesCollection()
    for tensor in _tensors_in(arguments):
        shapes[tensor] = dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO)
    return torch.export.export(module, *arguments, dynamic_shapes=shapes, strict=False).module()


def _dynamo(module: nn.Module, arguments: Arguments) -> Callable[..., Any]:
    """Return the compiled module after its first call. A later call that would compile again raises an error."""
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="eager")
    for tensor in _tensors_in(arguments):
        for dimension in range(tensor.dim()):
            torch._dynamo.maybe_mark_dynamic(tensor, dimension)
    run(compiled, arguments)

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._dynamo.config.patch(error_on_recompile=True):
            return compiled(*args, **kwargs)

    return call


def _tensors_in(arguments: Arguments) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class SizeWay:
    """`capture` returns a function that is called like the model, and refuses sizes that its graph does not take."""

    title: str
    capture: Callable[[nn.Module, Arguments], Callable[..., Any]]


SIZE_WAYS = {
    "examples": SizeWay("fxcore, with examples", _with_examples),
    "export": SizeWay("torch.export, `Dim.AUTO`", _export),
    "dynamo": SizeWay("Dynamo, all dimensions marked", _dynamo),
}
