"""The search for the first operator that returns other values in the graph than in eager."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.equivalence.divergence_path import divergence_path
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.operator_trace import Event, OperatorRecorder, OperatorTrace, RecordingInterpreter
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.paired_operators import described, largest_error, outputs_differ, paired_operators
from pytest_fxgraph.equivalence.run import RunFailure, RunSettings, run_model
from pytest_fxgraph.errors import CaptureError
from pytest_fxgraph.report.numeric_failure import PathStep
from pytest_fxgraph.report.printable import listed

_FOUND_BY_VALUES = ("value", "shape", "dtype", "structure", "state", "mutation")


@dataclass(frozen=True)
class Divergence:
    """The first pair of operators with different outputs, and the operators that ran in one run alone."""

    eager: Event | None  # None if one run goes on after the last pair
    graph: Event | None
    only_eager: tuple[Event, ...]  # between the last pair that agreed and this one
    only_graph: tuple[Event, ...]
    positions: tuple[int, int] | None  # of both events in their traces
    # Before the last pair that agreed: a side effect of these may show only here.
    earlier_eager: tuple[Event, ...] = ()
    earlier_graph: tuple[Event, ...] = ()


@dataclass(frozen=True)
class MismatchNotes:
    """The notes on the first operator that differs: up to two lines, and the way of the error if a report needs it."""

    lines: tuple[str, ...] = ()
    path: tuple[PathStep, ...] = ()


def notes_on_mismatch(
    model: Any,
    graph: Any,
    settings: RunSettings,
    comparison: OutputComparison,
    mismatches: list[Mismatch],
    *,
    with_path: bool = False,
) -> MismatchNotes:
    """Run both again to find the first operator that differs."""
    nothing = MismatchNotes()
    if not any(mismatch.kind in _FOUND_BY_VALUES for mismatch in mismatches):
        return nothing
    eager, again, of_graph = (_record(each, settings) for each in (model, model, graph))
    if eager is None or again is None or of_graph is None:
        return nothing
    if _first_divergence(eager, again, comparison) is not None:
        return MismatchNotes(("eager does not agree with itself when run twice from the same seed and state: make the "
                              "model deterministic before comparing",))  # fmt: skip
    found = _first_divergence(eager, of_graph, comparison)
    if found is None:
        return nothing
    path = _path(found, eager, of_graph, graph, comparison) if with_path else ()
    return MismatchNotes((_describe_place(found), *_describe_inputs(found, model, graph, settings)), path)


def _path(
    found: Divergence, eager: OperatorTrace, of_graph: OperatorTrace, graph: Any, comparison: OutputComparison
) -> tuple[PathStep, ...]:
    pairs = paired_operators(eager.events, of_graph.events)
    place = None if found.positions is None else pairs.index(found.positions)
    # Operators that ran earlier in one run alone are the cause, if there are no others right before the pair.
    alone = (found.only_eager, found.only_graph)
    alone = alone if any(alone) else (found.earlier_eager, found.earlier_graph)
    events = [(eager.events[one], of_graph.events[other]) for one, other in pairs]
    return divergence_path(events, place, alone, graph, comparison)


def _record(subject: Any, settings: RunSettings, keep_inputs_of: int | None = None) -> OperatorTrace | None:
    """Run once more and record every operator; None if the run fails."""
    recorder = OperatorRecorder(subject, keep_inputs_of)
    result = run_model(_recorded_call(subject, recorder), subject, settings)
    return None if isinstance(result, RunFailure) else recorder.trace


def _recorded_call(subject: Any, recorder: OperatorRecorder) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(subject, fxcore.GraphModule):
            with recorder, suppress(CaptureError):
                return RecordingInterpreter(subject, recorder).run(*arguments_in_order(subject, args, kwargs))
        with recorder:
            return subject(*args, **kwargs)

    return call


def _first_divergence(eager: OperatorTrace, graph: OperatorTrace, comparison: OutputComparison) -> Divergence | None:
    """Compare pairs of operators up to the first pair with different outputs."""
    expected, obtained = eager.events, graph.events
    last = (0, 0)
    earlier: tuple[list[Event], list[Event]] = ([], [])
    for i, j in paired_operators(expected, obtained):
        if outputs_differ(expected[i], obtained[j], comparison):
            between = (tuple(expected[last[0] : i]), tuple(obtained[last[1] : j]))
            return Divergence(expected[i], obtained[j], *between, (i, j), tuple(earlier[0]), tuple(earlier[1]))
        earlier[0].extend(expected[last[0] : i])
        earlier[1].extend(obtained[last[1] : j])
        last = (i + 1, j + 1)
    rest = (tuple(expected[last[0] :]), tuple(obtained[last[1] :]))
    return Divergence(None, None, *rest, positions=None) if any(rest) else None


def _describe_place(found: Divergence) -> str:
    alone = found.only_eager or found.only_graph
    if alone:
        apart = f"eager ran {_names(found.only_eager)} and the graph ran {_names(found.only_graph)}"
        first = found.only_eager[0] if found.only_eager else found.eager
        text = f"first parted where {apart}{_place(first) if first else ''}"
        return f"{text}; seen first in {_running(found.graph)}" if found.graph else text
    text = f"first parted at {_running(found.graph)}{_place(found.eager) if found.eager else ''}"
    if not (found.earlier_eager or found.earlier_graph):
        return text
    source = found.earlier_eager[0].source() if found.earlier_eager else None
    ran = f"eager ran {_names(found.earlier_eager)}{f' ({source})' if source else ''}"
    return f"{text}; earlier, {ran} and the graph ran {_names(found.earlier_graph)}"


def _running(event: Event | None) -> str:
    if event is None:
        return "the output"
    return f"node {event.node} ({event.name})" if event.node else event.name


def _place(event: Event) -> str:
    module = f" in module {event.module}" if event.module else ""
    source = event.source()
    return module + (f", {source}" if source else "")


def _names(events: tuple[Event, ...]) -> str:
    names = [f"{event.node} ({event.name})" if event.node else event.name for event in events]
    return listed(names, 3) or "nothing"


def _describe_inputs(found: Divergence, model: Any, graph: Any, settings: RunSettings) -> tuple[str, ...]:
    """Describe the inputs of the operator that differs, to show whether the error begins there or came in."""
    if found.positions is None:
        return ()
    in_eager, in_graph = found.positions
    eager, of_graph = _record(model, settings, in_eager), _record(graph, settings, in_graph)
    if eager is None or of_graph is None:
        return ()
    expected, obtained = eager.inputs.get(in_eager, ()), of_graph.inputs.get(in_graph, ())
    inputs = ", ".join(map(described, expected[:3])) or "none"
    # If other operators ran before, these operators are the cause, and the inputs add nothing.
    origin = "" if found.only_eager or found.only_graph else f"{_describe_error_origin(expected, obtained)}; "
    return (f"{origin}its inputs in eager: {inputs}",)


def _describe_error_origin(expected: tuple[torch.Tensor, ...], obtained: tuple[torch.Tensor, ...]) -> str:
    if any(tensor.is_nested for tensor in (*expected, *obtained)):
        return "its inputs are nested tensors, which are not measured"
    error = largest_error(expected, obtained)
    if error is None:
        return "it was given other inputs"
    if not error:
        return "its inputs agree exactly, so the error began there"
    return f"its inputs differ already by up to {error:.3g}, so the error grew or came in there"
