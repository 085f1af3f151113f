"""The request for one capture, and the state that a capture leaves as it was."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxcore.guided.inputs import copied_example
from fxcore.state.snapshot import state_kept
from pytest_fxgraph.arguments import MODES
from pytest_fxgraph.captures.shapes import positional_arguments
from pytest_fxgraph.captures.step_trace import Step
from pytest_fxgraph.captures.torch_internals import core_decompositions, torch_logs_quiet
from pytest_fxgraph.captures.tracing_failure import describe_failure, failure_of_model, name_of
from pytest_fxgraph.captures.train_step import TrainStep
from pytest_fxgraph.choices import FRONTENDS
from pytest_fxgraph.errors import CaptureError, ChoiceError, InputsError

Call = tuple[tuple[Any, ...], Mapping[str, Any]]
FurtherCall = Call | tuple[tuple[Any, ...], Mapping[str, Any], Callable[[], object]]


@dataclass(frozen=True)
class CaptureRequest:
    """A model and how it is to be captured."""

    model: Any
    calls: tuple[Call, ...]  # the first is captured, the others show recompiles
    frontend: str
    dynamic_shapes: Any = None
    mode: str | None = None  # None keeps the mode of the model
    decompositions: Any = None
    changes: Mapping[int, Callable[[], object]] = field(default_factory=dict)  # by the number of the call behind each
    step: Step | None = None  # for make_fx: trace this step, with the model's state left in place

    @classmethod
    def of(
        cls,
        model: Any,
        inputs: object,
        kwargs: Mapping[str, Any] | None,
        frontend: str,
        calls: Sequence[Any] = (),
        dynamic_shapes: Any = None,
        *,
        mode: str | None = None,
        decompositions: Any = None,
        step: Step | None = None,
    ) -> CaptureRequest:
        """Check the arguments of a capture. Raises ChoiceError, InputsError or CaptureError for impossible ones."""
        _check_choice("frontend", frontend, FRONTENDS)
        if mode is not None:
            _check_choice("mode", mode, MODES)
        if not isinstance(model, nn.Module) and not callable(model):
            raise CaptureError(
                f"cannot capture an object of type {type(model).__name__}: hand over a module or function"
            )
        if isinstance(model, TrainStep) and frontend != "make_fx":
            raise ChoiceError(
                f"frontend={frontend!r} takes no train step, because none of its graphs holds forward, backward and "
                "optimizer together; use frontend='make_fx'"
            )
        first = () if inputs is None else positional_arguments(inputs)
        changes = {place: call[2] for place, call in enumerate(calls, start=2) if _has_change(call)}
        further = [_checked_call(call, place) for place, call in enumerate(calls, start=2)]
        if further and frontend not in ("dynamo", "aot", "inductor"):
            raise CaptureError(
                f"calls= shows what is compiled again, and frontend={frontend!r} compiles once; "
                "use frontend='dynamo' or 'aot', or leave calls out"
            )
        if decompositions is not None and frontend in ("dynamo", "symbolic"):
            raise CaptureError(
                f"frontend={frontend!r} knows no decompositions; use frontend='export', 'aot' or 'make_fx'"
            )
        if isinstance(decompositions, str) and decompositions != "core":
            raise ChoiceError(f"there are no decompositions {decompositions!r}; give a table, or the word 'core'")
        if dynamic_shapes is not None and frontend == "symbolic":
            raise CaptureError("frontend='symbolic' records no sizes, so dynamic_shapes= says nothing; leave it out")
        if isinstance(dynamic_shapes, bool) and frontend == "export":
            raise CaptureError(
                f"dynamic_shapes={dynamic_shapes} is for frontends 'dynamo', 'aot' and 'make_fx'; name the sizes for "
                "frontend='export': dynamic_shapes={'x': {0: torch.export.Dim('size')}}"
            )
        all_calls = ((first, dict(kwargs or {})), *further)
        return cls(model, all_calls, frontend, dynamic_shapes, mode, decompositions, changes, step)

    def change_before(self, call: int) -> None:
        """Run the change that the user wants between a call, by its number, and the call before it."""
        if call in self.changes:
            self.changes[call]()

    @property
    def name(self) -> str:
        """Name the model in messages."""
        return name_of(self.model)

    def arguments(self, call: Call) -> dict[str, Any]:
        """Return the values of one call by the names of the parameters, the model's own `self` among them."""
        function = type(self.model).forward if isinstance(self.model, nn.Module) else self.model
        owner = (self.model,) if isinstance(self.model, nn.Module) else ()
        try:
            bound = inspect.signature(function).bind(*owner, *call[0], **call[1])
        except (TypeError, ValueError):
            return {}
        bound.apply_defaults()
        return dict(bound.arguments)

    @property
    def decomposition_table(self) -> Mapping[Any, Any] | None:
        """Return the table of decompositions; torch's core table for the word "core"."""
        return core_decompositions() if self.decompositions == "core" else self.decompositions

    @property
    def own_name(self) -> str:
        """Return the model's name inside its forward, usually `self`."""
        code = getattr(type(self.model).forward, "__code__", None) if isinstance(self.model, nn.Module) else None
        return code.co_varnames[0] if code is not None and code.co_varnames else "self"

    def failure(self, error: Exception, call: int = 1) -> CaptureError:
        """Return the error for a frontend that failed, with the user's line and torch's reason."""
        place = f" in call {call}" if len(self.calls) > 1 else ""
        args, kwargs = self.calls[call - 1]
        own = failure_of_model(self.model, {"example_inputs": args, "example_kwargs": kwargs})
        if own is not None:
            return CaptureError(f"frontend={self.frontend!r}{place}: the model {self.name} itself fails: {own}")
        message = describe_failure(self.model, error).replace("cannot trace ", "cannot capture ", 1)
        user_lines = _lines_of_torch(error)
        cure = _OTHER_FRONTEND.get(self.frontend, "")
        return CaptureError(f"frontend={self.frontend!r}{place}: {message}{user_lines}{cure}")

    @contextlib.contextmanager
    def failures_told(self, call: int = 1) -> Iterator[None]:
        """Raise `failure` for any error of a with block."""
        try:
            yield
        except Exception as error:
            raise self.failure(error, call) from error


_OTHER_FRONTEND = {
    "export": (
        "\nexport takes a model whole or not at all; frontend='dynamo' captures it in parts and says where it breaks"
    ),
    "make_fx": (
        "\nmake_fx runs the model once and sees its operators; frontend='export' names the line that stands in the way"
    ),
}


def _lines_of_torch(error: BaseException) -> str:
    """Return the user's frames that an error of torch carries, a line each."""
    stack = getattr(error, "real_stack", None)
    if not isinstance(stack, traceback.StackSummary) or not stack:
        return ""
    return "".join(f"\n  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}" for frame in stack)


def _check_choice(what: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ChoiceError(f"there is no {what} {value!r}; there are {', '.join(map(repr, known))}")


def _has_change(call: Any) -> bool:
    return isinstance(call, tuple) and len(call) == 3 and callable(call[2])


def _checked_call(call: Any, place: int) -> Call:
    if _has_change(call):
        call = call[:2]
    if isinstance(call, tuple) and len(call) == 2 and isinstance(call[0], tuple) and isinstance(call[1], Mapping):
        return call[0], dict(call[1])
    raise InputsError(
        f"calls: expected (args, kwargs), a tuple and a dict, got {type(call).__name__} for call {place}; "
        "write calls=[((x,), {}), ((y,), {'flag': True})], with a function as third part that changes something before "
        "the call"
    )


def copied_call(call: Call) -> Call:
    """Return a copy of the arguments of a call, because a run may change them."""
    args, kwargs = copied_example((call[0], dict(call[1])))
    return args, kwargs


def independent_call(call: Call) -> Call:
    """Return a copy of the arguments of a call with no tensor twice, which export and make_fx take for one input.

    Their graph would read the last of these inputs in place of each, and no guard would tell.
    """
    leaves, structure = pytree.tree_flatten(copied_call(call))
    known: set[int] = set()
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and id(leaf) in known:
            leaves[place] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        known.add(id(leaf))
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return args, kwargs


@contextlib.contextmanager
def left_as_it_was(request: CaptureRequest) -> Iterator[None]:
    """Put the model in the requested mode; then restore its mode, gradients, generators and torch's settings.

    torch's logs are silent, because a capture reports the same facts in its own words.
    """
    # A step writes into the parameters.
    with torch_logs_quiet(), state_kept(request.model, parameters=isinstance(request.model, TrainStep)):
        if request.mode is not None and isinstance(request.model, nn.Module):
            for module in request.model.modules():
                module.training = request.mode == "train"
        yield
