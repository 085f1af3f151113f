"""What a test gets as `fx_capture`, and the way of each frontend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_fxgraph.captures.aot import capture_by_aot
from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.dynamo import capture_by_dynamo
from pytest_fxgraph.captures.export import capture_by_export
from pytest_fxgraph.captures.make_fx import capture_by_make_fx
from pytest_fxgraph.captures.request import CaptureRequest, left_as_it_was
from pytest_fxgraph.captures.symbolic import capture_symbolically
from pytest_fxgraph.captures.torch_internals import torch_logs_quiet
from pytest_fxgraph.choices import Frontend, Mode

_WAYS: dict[str, Callable[[CaptureRequest], Capture]] = {
    "symbolic": capture_symbolically,
    "export": capture_by_export,
    "dynamo": capture_by_dynamo,
    "aot": capture_by_aot,
    "make_fx": capture_by_make_fx,
}


class FxCapture:
    """Captures a model by a frontend: the fixture `fx_capture`."""

    def __call__(
        self,
        model: Any,
        inputs: object = None,
        *,
        kwargs: Mapping[str, Any] | None = None,
        frontend: Frontend = "dynamo",
        dynamic_shapes: Any = None,
        mode: Mode = "eval",
        decompositions: Any = None,
        calls: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = (),
    ) -> Capture:
        """Return the graphs that a frontend makes of a model, with breaks, recompiles and guards.

        `inputs` is a tuple of positional arguments or one tensor; `calls` are further calls, (args, kwargs) each, which
        show what is compiled again. `dynamic_shapes` is as for torch.export; for Dynamo also True or False, for make_fx
        True. `decompositions` is a table, or "core". The model, its gradients and mode, random generators and torch's
        settings are left as they were, and Dynamo is reset before and after; no backend but the recording one runs.

        Raises CaptureError, with the user's line, if the frontend or the model fails, ChoiceError for a wrong word.
        """
        __tracebackhide__ = True
        request = CaptureRequest.of(
            model,
            inputs,
            kwargs,
            frontend,
            calls=calls,
            dynamic_shapes=dynamic_shapes,
            mode=mode,
            decompositions=decompositions,
        )
        return captured(request)


def captured(request: CaptureRequest) -> Capture:
    """Capture as a request asks, and leave the model and torch as they were."""
    with torch_logs_quiet(), left_as_it_was(request):
        return _WAYS[request.frontend](request)
