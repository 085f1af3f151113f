"""The first operator that returns other values in the graph than in eager, and the way of the error from there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from fxcore.errors import FxError
from fxcore.state.storage import has_values, wrapped_tensors
from pytest_fxgraph.captures.shapes import arguments_in_order
from pytest_fxgraph.captures.subjects import is_torch_graph_module, to_graph_module
from pytest_fxgraph.compare.sequence_alignment import common_prefix, common_subsequence
from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.operator_trace import Event, OperatorRecorder, OperatorTrace, RecordingInterpreter
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunFailure, RunSettings, run_model
from pytest_fxgraph.equivalence.tolerance import Tolerance
from pytest_fxgraph.errors import CaptureError, GateError
from pytest_fxgraph.report.numeric_failure import PathStep
from pytest_fxgraph.report.printable import listed

_EXACT = Tolerance(0.0, 0.0)
_AHEAD = 8  # operators among which the values of both runs may meet again
_HINT_ON_AUTOCAST = (
    "a plain trace leaves out torch.autocast blocks; a trace with example inputs and frontend='export' keep them"
)
_FOUND_BY_VALUES = ("value", "shape", "dtype", "structure", "state", "mutation")
# Limits of the way of an error: operators before the first difference, operators of one run alone, operators after.
_MOST_BEFORE, _MOST_ALONE = 3, 8
_FIRST_AFTER, _LAST_AFTER = 24, 8

_Alone = tuple[list[Event], list[Event]]  # operators of eager alone, and of the graph alone
_Notes = tuple[list[str], tuple[PathStep, ...]]  # up to two lines, and the way of the error if a report needs it


def paired_operators(expected: Sequence[Event], obtained: Sequence[Event]) -> list[tuple[int, int]]:
    """Pair the operators of two runs by name and order; return pairs of positions."""
    return _pairs([*map(_paired_name, expected)], [*map(_paired_name, obtained)])


def _paired_name(event: Event) -> str:
    """Return the name that pairs operators: an exported graph calls linear.default for linear."""
    return event.name.partition(".")[0].rstrip("_")


def _pairs(expected: list[str], obtained: list[str]) -> list[tuple[int, int]]:
    found = common_subsequence(expected, obtained)
    if found is not None:
        return found
    # Too little in common to be aligned: only the common beginning is certain.
    return [(index, index) for index in range(common_prefix(expected, obtained))]


def outputs_differ(expected: Event, obtained: Event, comparison: OutputComparison) -> bool:
    """Return whether two operators returned different values; values that were not kept do not differ."""
    if expected.outputs is None or obtained.outputs is None:
        return False
    if len(expected.outputs) != len(obtained.outputs):
        return True
    return any(
        mismatch.kind not in ("stride", "requires_grad")
        for pair in zip(expected.outputs, obtained.outputs, strict=True)
        for mismatch in comparison.compare_tensors(*pair, "")
    )


def largest_error(expected: Sequence[torch.Tensor], obtained: Sequence[torch.Tensor]) -> float | None:
    """Return the largest absolute error of several tensors; None if they cannot be measured against each other."""
    if any(tensor.is_nested for tensor in (*expected, *obtained)):
        return None
    if [(tensor.shape, tensor.dtype) for tensor in expected] != [(tensor.shape, tensor.dtype) for tensor in obtained]:
        return None
    found = [
        measure(one, other, _EXACT)
        for one, other in zip(expected, obtained, strict=True)
        if one.layout is torch.strided and not (wrapped_tensors(one) or wrapped_tensors(other))
        if has_values(one) and has_values(other)
    ]
    return max((statistics.largest_absolute.error for statistics in found if statistics is not None), default=0.0)


def described(tensor: torch.Tensor) -> str:
    """Return dtype, shape and range of a tensor."""
    if tensor.is_nested:
        return f"nested {str(tensor.dtype).removeprefix('torch.')} of {tensor.size(0)}"
    kind = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if not tensor.numel() or tensor.is_meta or tensor.is_complex() or tensor.layout is not torch.strided:
        return kind
    if wrapped_tensors(tensor):
        return f"{type(tensor).__name__} of {kind}"
    wide = tensor.double()
    return f"{kind} in {float(wide.min()):.4g}..{float(wide.max()):.4g}, mean {float(wide.mean()):.4g}"


@dataclass(frozen=True)
class Divergence:
    """The first pair of operators with different outputs, and the operators that ran in one run alone."""

    traces: tuple[OperatorTrace, OperatorTrace]  # of eager and of the graph
    pairs: list[tuple[int, int]]  # positions of all paired operators in the traces
    place: int | None  # of the pair among all pairs; None if one run goes on after the last pair
    between: _Alone  # after the last pair that agreed
    earlier: _Alone  # before the last pair that agreed: a side effect of these may show only here

    def events(self) -> list[tuple[Event, Event]]:
        """Return the paired operators."""
        return [(self.traces[0].events[one], self.traces[1].events[other]) for one, other in self.pairs]


def notes_on_mismatch(
    model: Any,
    graph: Any,
    settings: RunSettings,
    comparison: OutputComparison,
    mismatches: list[Mismatch],
    *,
    with_path: bool,
) -> _Notes:
    """Run both again to find the first operator that differs."""
    if not any(mismatch.kind in _FOUND_BY_VALUES for mismatch in mismatches):
        return [], ()
    eager, again, of_graph = (_record(each, settings) for each in (model, model, graph))
    if eager is None or again is None or of_graph is None:
        return [], ()
    if _first_divergence(eager, again, comparison) is not None:
        return ["eager does not agree with itself when run twice from the same seed and state: make the "
                "model deterministic before comparing"], ()  # fmt: skip
    found = _first_divergence(eager, of_graph, comparison)
    if found is None:
        return [], ()
    path = divergence_path(found, graph, comparison) if with_path else ()
    hint = [_HINT_ON_AUTOCAST] if _lost_autocast(found) else []
    return [_describe_place(found), *hint, *_describe_inputs(found, model, graph, settings)], path


def _record(root: Any, settings: RunSettings, keep_inputs_of: int | None = None) -> OperatorTrace | None:
    """Run once more and record every operator; None if the run fails."""
    subject = root
    if is_torch_graph_module(root):
        with suppress(FxError, GateError):  # a graph that cannot be taken over runs without the names of its nodes
            subject = to_graph_module(subject)
    recorder = OperatorRecorder(subject, keep_inputs_of)

    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(subject, fxcore.GraphModule):
            with recorder, suppress(CaptureError):
                return RecordingInterpreter(subject, recorder).run(*arguments_in_order(subject, args, kwargs))
        with recorder:
            return subject(*args, **kwargs)

    result = run_model(call, root, settings)
    return None if isinstance(result, RunFailure) else recorder.trace


def _first_divergence(eager: OperatorTrace, graph: OperatorTrace, comparison: OutputComparison) -> Divergence | None:
    """Compare pairs of operators up to the first pair with different outputs.

    A fused operator gives what a later operator of eager gives. The search goes on where the values meet again.
    """
    pairs = paired_operators(eager.events, graph.events)
    begin = (0, 0)
    earlier: _Alone = ([], [])
    for place, (i, j) in enumerate(pairs):
        if i < begin[0] or j < begin[1]:
            continue
        end = (i, j)
        if outputs_differ(eager.events[i], graph.events[j], comparison):
            met = _meeting(eager.events[i : i + _AHEAD], graph.events[j : j + _AHEAD], comparison)
            if met is None:
                between = eager.events[begin[0] : i], graph.events[begin[1] : j]
                between = _after_last_meeting(between, earlier, comparison)
                return Divergence((eager, graph), pairs, place, between, earlier)
            end = (i + met[0], j + met[1])
        for alone, events, first, paired, last in zip(
            earlier, (eager.events, graph.events), begin, (i, j), end, strict=True
        ):
            alone += [*events[first:paired], *events[paired + 1 : last]]
        begin = (end[0] + 1, end[1] + 1)
    rest = eager.events[begin[0] :], graph.events[begin[1] :]
    return Divergence((eager, graph), pairs, None, rest, ([], [])) if any(rest) else None


def _meeting(eager: Sequence[Event], graph: Sequence[Event], comparison: OutputComparison) -> tuple[int, int] | None:
    """Find the next operator of one run that returns what the first operator of the other run returns."""
    for step in range(1, _AHEAD):
        for one, other in ((step, 0), (0, step)):
            if one < len(eager) and other < len(graph) and _are_equal(eager[one], graph[other], comparison):
                return one, other
    return None


def _after_last_meeting(between: _Alone, earlier: _Alone, comparison: OutputComparison) -> _Alone:
    """Return the operators after the last two that return the same; the others are added to `earlier`."""
    eager, graph = between
    for i in reversed(range(len(eager))[-_AHEAD:]):
        for j in reversed(range(len(graph))[-_AHEAD:]):
            if _are_equal(eager[i], graph[j], comparison):
                earlier[0].extend(eager[: i + 1])
                earlier[1].extend(graph[: j + 1])
                return eager[i + 1 :], graph[j + 1 :]
    return between


def _are_equal(eager: Event, graph: Event, comparison: OutputComparison) -> bool:
    return bool(eager.outputs and graph.outputs) and not outputs_differ(eager, graph, comparison)


def _describe_place(found: Divergence) -> str:
    pair = found.events()[found.place] if found.place is not None else None
    autocast = _lost_autocast(found)
    if pair is None or any(found.between):
        first = next(iter(found.between[0]), pair and pair[0])
        text = f"first parted where {_ran(found.between)}{autocast}{_place(first) if first else ''}"
        text = f"{text}; seen first in {_running(pair[1])}" if pair else text
        return f"{text}; earlier, {_ran(found.earlier)}" if any(found.earlier) else text
    text = f"first parted at {_running(pair[1])}{autocast}{_place(pair[0])}"
    if not any(found.earlier):
        return text
    return f"{text}; earlier, {_ran(found.earlier, found.earlier[0][0].source if found.earlier[0] else None)}"


def _lost_autocast(found: Divergence) -> str:
    """Tell that eager ran the operators at the place of divergence under another autocast than the graph did."""
    pair = found.events()[found.place] if found.place is not None else None
    eager, graph = (
        next((event.autocast for event in (*alone, *([one] if one else [])) if event.autocast), "")
        for alone, one in zip(found.between, pair or (None, None), strict=True)
    )
    if eager == graph:
        return ""
    of_eager, of_graph = (f"under {each}" if each else "without autocast" for each in (eager, graph))
    return f", {of_eager} in eager and {of_graph} in the graph"


def _ran(alone: _Alone, source: str | None = None) -> str:
    eager, graph = (listed(map(_name, events), 3) or "nothing" for events in alone)
    return f"eager ran {eager}{f' ({source})' if source else ''} and the graph ran {graph}"


def _running(event: Event) -> str:
    return f"node {_name(event)}" if event.node else event.name


def _name(event: Event) -> str:
    return f"{event.node} ({event.name})" if event.node else event.name


def _place(event: Event) -> str:
    module = f" in module {event.module}" if event.module else ""
    source = event.source
    return module + (f", {source}" if source else "")


def _describe_inputs(found: Divergence, model: Any, graph: Any, settings: RunSettings) -> tuple[str, ...]:
    """Describe the inputs of the operator that differs, to show whether the error begins there or came in."""
    if found.place is None:
        return ()
    in_eager, in_graph = found.pairs[found.place]
    eager, of_graph = _record(model, settings, in_eager), _record(graph, settings, in_graph)
    if eager is None or of_graph is None:
        return ()
    expected, obtained = eager.inputs.get(in_eager, ()), of_graph.inputs.get(in_graph, ())
    inputs = ", ".join(map(described, expected[:3])) or "none"
    # If other operators ran before, these operators are the cause, and the inputs add nothing.
    origin = "" if any(found.between) else f"{_describe_error_origin(expected, obtained)}; "
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


def divergence_path(found: Divergence, graph: Any, comparison: OutputComparison) -> tuple[PathStep, ...]:
    """Return the operators that lead to the first pair that differs, and the operators after it that read its values.

    Without nodes of a graph, all operators before and after are on the way.
    """
    pairs, place = found.events(), found.place
    # Operators that ran earlier in one run alone are the cause, if there are no others right before the pair.
    alone = found.between if any(found.between) else found.earlier
    starts = {event.node for event in alone[1] if event.node}
    if place is not None and (name := pairs[place][1].node):
        starts.add(name)
    before, after = _names_before_and_after(graph, starts)
    led = [pair for pair in pairs[:place] if before is None or (pair[1].node or "") in before]
    steps = [_judged(pair, comparison) for pair in led[-_MOST_BEFORE:]]
    steps += [*_lone(alone[0], "only eager"), *_lone(alone[1], "only graph")]
    if place is None:
        return tuple(steps)
    steps.append(_step(pairs[place], "first"))
    later = [pair for pair in pairs[place + 1 :] if after is None or (pair[1].node or "") in after]
    left_out = later[_FIRST_AFTER:-_LAST_AFTER]
    steps += [_judged(pair, comparison) for pair in later[:_FIRST_AFTER]]
    if left_out:
        steps.append(PathStep("left out", f"{len(left_out)} more operators"))
    steps += [_judged(pair, comparison) for pair in later[_FIRST_AFTER:][-_LAST_AFTER:]]
    return tuple(steps)


def _names_before_and_after(graph: Any, starts: Collection[str]) -> tuple[set[str] | None, set[str] | None]:
    """Return the names of the nodes that some nodes depend on, and of the nodes that depend on them."""
    if not isinstance(graph, fxcore.GraphModule) or not starts:
        return None, None
    nodes = list(graph.graph.nodes)
    before, after = ({node.name for node in nodes if node.name in starts} for _ in range(2))
    for node in reversed(nodes):
        if node.name in before:
            before.update(each.name for each in node.all_input_nodes)
    for node in nodes:
        if any(each.name in after for each in node.all_input_nodes):
            after.add(node.name)
    return before, after


def _lone(events: Sequence[Event], status: str) -> Iterator[PathStep]:
    for event in events[:_MOST_ALONE]:
        value = ", ".join(map(described, event.outputs or ()))
        if status == "only eager":
            yield PathStep(status, event.name, "", event.module, event.source or "", value)
        else:  # the line that ran a node is that of the test
            yield PathStep(status, event.name, event.node or "", obtained=value)
    if len(events) > _MOST_ALONE:
        yield PathStep("left out", f"{len(events) - _MOST_ALONE} more operators, {status}")


def _judged(pair: tuple[Event, Event], comparison: OutputComparison) -> PathStep:
    return _step(pair, "differs" if outputs_differ(*pair, comparison) else "agrees")


def _step(pair: tuple[Event, Event], status: str) -> PathStep:
    eager, graph = pair
    error = None
    if eager.outputs is not None and graph.outputs is not None:
        error = largest_error(eager.outputs, graph.outputs)
    expected, obtained = (", ".join(map(described, event.outputs or ())) for event in pair)
    return PathStep(status, graph.name, graph.node or "", eager.module, eager.source or "", expected, obtained, error)
