"""The `frontend=` of the fixtures: the way from a module to a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_fxgraph.captures.subjects import Adapter, is_model
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.choices import FRONTENDS
from pytest_fxgraph.errors import CaptureError, ChoiceError

if TYPE_CHECKING:
    import fxcore
    from pytest_fxgraph.captures.request import CaptureRequest

RUNNABLE = ("symbolic", "export", "make_fx", "dynamo")
_HINT = "or let torch capture it: frontend='export', or frontend='dynamo' for one that breaks in parts, with inputs"


@contextlib.contextmanager
def captured_by(
    frontend: str, subject: Any, inputs: object, kwargs: Mapping[str, Any] | None, adapt: Adapter | None
) -> Iterator[Any]:
    """Give a `with` block the capture of a module or function by a frontend, and any other subject as it is.

    With the frontend "symbolic", the block gets the subject, and traces the subject itself. If that fails, the error
    names the other frontends. Raises CaptureError if the frontend fails, or needs inputs and got none.
    """
    request = _request_for(frontend, subject, inputs, kwargs, adapt)
    if request is not None:
        from pytest_fxgraph.captures.ways import captured

        if inputs is None and not kwargs:
            raise CaptureError(
                f"frontend={request.frontend!r} runs the model once, so it needs inputs: give example_inputs=, "
                "or example_kwargs= for those that are given by name"
            )
        subject = captured(request)
    with other_frontends_named():
        yield subject


def runnable_by(
    frontend: str, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], adapt: Adapter | None = None
) -> fxcore.GraphModule | None:
    """Capture a model as one graph with the model's arguments; return None for a graph, and for "symbolic".

    Raises CaptureError if the frontend fails, or its graph cannot run in place of the model.
    """
    request = _request_for(frontend, model, args, kwargs, adapt)
    if request is None:
        return None
    from pytest_fxgraph.captures.ways import runnable_graph

    return runnable_graph(request)


def _request_for(
    frontend: str, subject: Any, inputs: object, kwargs: Mapping[str, Any] | None, adapt: Adapter | None
) -> CaptureRequest | None:
    """Return the request to capture a module or function in its present mode; None for a graph, and for "symbolic".

    A train step has no symbolic trace, because autograd needs values: it is captured by "make_fx".
    """
    if frontend == "symbolic" and isinstance(subject, TrainStep):
        frontend = "make_fx"
    if frontend == "symbolic" or not is_model(subject, adapt):
        return None
    # Imported here because every golden test gets this far, and few name a frontend.
    from pytest_fxgraph.captures.request import CaptureRequest

    return CaptureRequest.of(subject, inputs, kwargs, frontend)


def checked_frontend(frontend: str) -> str:
    """Return the frontend if its graph can run in place of the model. Raises ChoiceError for any other."""
    if frontend not in RUNNABLE:
        known = "" if frontend in FRONTENDS else ", and there is none of this name"
        raise ChoiceError(
            f"frontend={frontend!r} makes no graph that takes what the model takes{known}; fx_equivalence runs the "
            f"graphs of {', '.join(map(repr, RUNNABLE))}. Look at the others with fx_capture"
        )
    return frontend


@contextlib.contextmanager
def other_frontends_named() -> Iterator[None]:
    """Add the names of the other frontends to the error of a failed symbolic trace."""
    try:
        yield
    except CaptureError as error:
        if "frontend=" in str(error):
            raise
        raise CaptureError(f"{error}\n{_HINT}") from error.__cause__
