"""What a test gets as `fx_trace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import fxcore
from pytest_fxgraph.capture.tracing import trace
from pytest_fxgraph.errors import CaptureError


class FxTrace:
    """Traces a model: the fixture `fx_trace`."""

    def __call__(
        self,
        model: Any,
        *,
        example_inputs: object = None,
        example_kwargs: Mapping[str, Any] | None = None,
        concrete_args: dict[str, Any] | None = None,
        leaf_modules: Any = (),
        wrap: Any = (),
    ) -> fxcore.GraphModule:
        """Return the graph of a model; one that cannot be traced fails the test, naming the model's line.

        `leaf_modules` are classes or module paths, `wrap` functions or names of functions, whose calls stay one node
        each. With `example_inputs` every node has the shape and dtype of its value in its meta.
        """
        try:
            return trace(
                model,
                example_inputs=example_inputs,
                example_kwargs=example_kwargs,
                concrete_args=concrete_args,
                leaf_modules=leaf_modules,
                wrap=wrap,
            )
        except CaptureError as error:
            message = str(error)
        # Outside the handler: the report is the message alone, without the frames of the tracer below it.
        pytest.fail(message, pytrace=False)
