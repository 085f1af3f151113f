"""Frontend "make_fx": the operators that one run of a model calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore import interop
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.request import CaptureRequest, copied_call
from pytest_fxgraph.captures.state_names import with_named_state
from pytest_fxgraph.captures.symbolic import NO_BACKWARD
from pytest_fxgraph.captures.torch_internals import (
    InternalsError,
    Unavailable,
    core_decompositions,
    shape_facts,
    traced_by_make_fx,
)
from pytest_fxgraph.document.exported_ranges import bounds_as_numbers
from pytest_fxgraph.errors import CaptureError


def capture_by_make_fx(request: CaptureRequest) -> Capture:
    """Record the operators of one run, with the model's parameters by name. Raises CaptureError if it fails."""
    if request.dynamic_shapes not in (None, True):
        raise CaptureError("frontend='make_fx' makes all sizes symbolic or none; give dynamic_shapes=True")
    args, kwargs = copied_call(request.calls[0])
    leaves, structure = pytree.tree_flatten((args, dict(kwargs)))
    model = request.model
    state = _state_of(model)

    def run(*flat: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(list(flat[len(state) :]), structure)
        if not isinstance(model, nn.Module):
            return model(*args, **kwargs)
        return torch.func.functional_call(model, dict(zip(state, flat, strict=False)), args, kwargs)

    table = core_decompositions() if request.decompositions == "core" else request.decompositions
    try:
        made = traced_by_make_fx(
            run, (*state.values(), *leaves), is_symbolic=request.dynamic_shapes is True, decompositions=table
        )
    except Exception as error:
        raise request.failure(error) from error
    graph = interop.from_torch(made)
    placeholders = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    named = dict(zip(placeholders, state, strict=False))
    missing = Unavailable(NO_BACKWARD.format("make_fx"))
    ranges: dict[str, tuple[int | None, int | None]] | Unavailable = {}
    try:
        ranges = {str(symbol): bounds_as_numbers(bounds) for symbol, bounds in shape_facts(graph.graph)[0].items()}
    except InternalsError as error:
        ranges = Unavailable(str(error))
    return Capture(
        "make_fx",
        request.name,
        [with_named_state(graph, named, model)],
        ranges=ranges,
        backward_graphs=missing,
        joint_graphs=missing,
    )


def _state_of(model: Any) -> dict[str, torch.Tensor]:
    if not isinstance(model, nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}
