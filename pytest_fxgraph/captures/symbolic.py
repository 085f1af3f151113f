"""Frontend "symbolic": fxcore's own tracer."""

from __future__ import annotations

from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.request import CaptureRequest, copied_call
from pytest_fxgraph.captures.torch_internals import Unavailable
from pytest_fxgraph.captures.tracing import trace, trace_for_inputs

NO_BACKWARD = "frontend={!r} records no backward graph; use frontend='aot' with mode='train'"


def capture_symbolically(request: CaptureRequest) -> Capture:
    """Trace a model; with inputs, by their values where Python asks for one. Raises CaptureError if that fails."""
    args, kwargs = copied_call(request.calls[0])
    graph = trace_for_inputs(request.model, args, kwargs, verify=True) if args or kwargs else trace(request.model)
    missing = Unavailable(NO_BACKWARD.format("symbolic"))
    return Capture("symbolic", request.name, [graph], backward_graphs=missing, joint_graphs=missing)
