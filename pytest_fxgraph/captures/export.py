"""Frontend "export": torch.export, a model whole or not at all."""

from __future__ import annotations

import torch
from torch import nn

from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.request import CaptureRequest, copied_call
from pytest_fxgraph.captures.subjects import FunctionModule, to_graph_module
from pytest_fxgraph.captures.symbolic import NO_BACKWARD
from pytest_fxgraph.captures.torch_internals import Unavailable, core_decompositions
from pytest_fxgraph.document.exported_ranges import bounds_as_numbers


def capture_by_export(request: CaptureRequest) -> Capture:
    """Export a model. Raises CaptureError, with the user's line, if torch.export refuses it."""
    args, kwargs = copied_call(request.calls[0])
    model = request.model if isinstance(request.model, nn.Module) else FunctionModule(request.model)
    try:
        program = torch.export.export(model, args, dict(kwargs), dynamic_shapes=request.dynamic_shapes, strict=False)
        if request.decompositions is not None:
            table = core_decompositions() if request.decompositions == "core" else request.decompositions
            program = program.run_decompositions(dict(table))
    except Exception as error:
        raise request.failure(error) from error
    missing = Unavailable(NO_BACKWARD.format("export"))
    return Capture(
        "export",
        request.name,
        [to_graph_module(program)],
        program=program,
        ranges={str(symbol): bounds_as_numbers(bounds) for symbol, bounds in program.range_constraints.items()},
        backward_graphs=missing,
        joint_graphs=missing,
    )
