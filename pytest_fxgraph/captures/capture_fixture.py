"""The fixture `fx_capture`: captures a model by a frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_fxgraph.captures.capture import Capture
from pytest_fxgraph.captures.request import CaptureRequest, FurtherCall
from pytest_fxgraph.captures.ways import captured
from pytest_fxgraph.choices import Frontend, Mode


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
        calls: Sequence[FurtherCall] = (),
    ) -> Capture:
        """Return the graphs that a frontend makes of a model, with breaks, recompiles and guards.

        `inputs` is a tuple of positional arguments or one tensor. `calls` are further calls, (args, kwargs) each; they
        show recompiles. A function as third part of a call runs before it, and may change attributes and globals.
        `dynamic_shapes` is torch.export's argument; Dynamo also takes True or False, make_fx True. `decompositions` is
        a table, or "core". The model, its gradients and mode, random generators and torch's settings are left as they
        were. Dynamo is reset before and after, and no backend but the recording one runs.

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
