"""The fixture `fx_trace`: traces a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import fxcore
from pytest_fxgraph.captures.tracing import trace
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
        assume: Mapping[str, Any] | None = None,
        verify: bool | None = None,
        enforce_guards: bool | None = None,
    ) -> fxcore.GraphModule:
        """Return the graph of a model. A model that cannot be traced fails the test with the model's line.

        `leaf_modules` are classes or module paths; a call of one of these modules is one node. With "auto", modules
        that cannot be traced are leaves. `wrap` are functions or names of functions; a call of one is one node.

        With `example_inputs`, tracing goes on where Python asks for a value. The value becomes a guard of the graph,
        and every node has the shape and dtype of its value in its meta. Unless `verify` is False, graph and model are
        compared on the example, on fresh values and on inputs of other sizes. Calls of the graph refuse inputs that
        break a guard; `enforce_guards=False` leaves the checks out. `assume` names places, "file.py:line": a branch on
        tensor contents there goes as in the example.
        """
        try:
            return trace(
                model,
                example_inputs=example_inputs,
                example_kwargs=example_kwargs,
                concrete_args=concrete_args,
                leaf_modules=leaf_modules,
                wrap=wrap,
                assume=assume,
                verify=verify,
                enforce_guards=enforce_guards,
            )
        except CaptureError as error:
            message = str(error)
        # Outside the handler: the report is the message alone, without the frames of the tracer below it.
        pytest.fail(message, pytrace=False)
