"""The first operator at which eager and graph differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from pytest_fxgraph.compare.sequence_alignment import common_subsequence
from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.operator_trace import Event, OperatorRecorder, OperatorTrace, RecordingInterpreter
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunFailure, RunSettings, placeholder_values, run_model
from pytest_fxgraph.equivalence.state.storage import wrapped_tensors
from pytest_fxgraph.equivalence.tolerance import Tolerance

_FOUND_BY_VALUES = ("value", "shape", "dtype", "structure", "state", "mutation")


@dataclass(frozen=True)
class Divergence:
    """The first pair of operators whose outputs differ, and the operators that ran in one run alone."""

    eager: Event | None  # None where one run goes on after the last pair
    graph: Event | None
    only_eager: tuple[Event, ...]  # between the last pair that agreed and this one
    only_graph: tuple[Event, ...]
    positions: tuple[int, int] | None  # of both events in their traces
    # Before the last pair that agreed: a side effect of these may show only here.
    earlier_eager: tuple[Event, ...] = ()
    earlier_graph: tuple[Event, ...] = ()


def notes_on_mismatch(
    model: Any, graph: Any, settings: RunSettings, comparison: OutputComparison, mismatches: list[Mismatch]
) -> tuple[str, ...]:
    """Run both again to find the first operator that differs; return up to two lines about it, none if not found."""
    if not any(mismatch.kind in _FOUND_BY_VALUES for mismatch in mismatches):
        return ()
    eager, again, of_graph = (_record(each, settings) for each in (model, model, graph))
    if eager is None or again is None or of_graph is None:
        return ()
    if _first_divergence(eager, again, comparison) is not None:
        return ("eager does not agree with itself when run twice from the same seed and state: make the model "
                "deterministic before comparing",)  # fmt: skip
    found = _first_divergence(eager, of_graph, comparison)
    if found is None:
        return ()
    return (_describe_place(found), *_describe_inputs(found, model, graph, settings))


def _record(subject: Any, settings: RunSettings, keep_inputs_of: int | None = None) -> OperatorTrace | None:
    """Run once more and record every operator; None if the run fails."""
    recorder = OperatorRecorder(subject, keep_inputs_of)
    result = run_model(_recorded_call(subject, recorder), subject, settings)
    return None if isinstance(result, RunFailure) else recorder.trace


def _recorded_call(subject: Any, recorder: OperatorRecorder) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(subject, fxcore.GraphModule):
            values = placeholder_values(subject.graph, args, kwargs)
            if values is not None:
                with recorder:
                    return RecordingInterpreter(subject, recorder).run(*values)
        with recorder:
            return subject(*args, **kwargs)

    return call


def _first_divergence(eager: OperatorTrace, graph: OperatorTrace, comparison: OutputComparison) -> Divergence | None:
    """Compare pairs of operators up to the first whose outputs differ."""
    expected, obtained = eager.events, graph.events
    last = (0, 0)
    earlier: tuple[list[Event], list[Event]] = ([], [])
    for i, j in _pairs([_paired_name(event) for event in expected], [_paired_name(event) for event in obtained]):
        if _differ(expected[i], obtained[j], comparison):
            between = (tuple(expected[last[0] : i]), tuple(obtained[last[1] : j]))
            return Divergence(expected[i], obtained[j], *between, (i, j), tuple(earlier[0]), tuple(earlier[1]))
        earlier[0].extend(expected[last[0] : i])
        earlier[1].extend(obtained[last[1] : j])
        last = (i + 1, j + 1)
    rest = (tuple(expected[last[0] :]), tuple(obtained[last[1] :]))
    return Divergence(None, None, *rest, positions=None) if any(rest) else None


def _paired_name(event: Event) -> str:
    """Return the name by which operators are paired: an exported graph calls linear.default for linear."""
    return event.name.partition(".")[0].rstrip("_")


def _pairs(expected: list[str], obtained: list[str]) -> list[tuple[int, int]]:
    """Pair the operators of two runs by name and order; return pairs of positions."""
    if expected == obtained:
        return [(index, index) for index in range(len(expected))]
    numbers: dict[str, int] = {}
    expected_ids, obtained_ids = ([numbers.setdefault(name, len(numbers)) for name in names]
                                  for names in (expected, obtained))  # fmt: skip
    found = common_subsequence(expected_ids, obtained_ids)
    if found is not None:
        return found
    # Too little in common to be aligned: only the common beginning is certain.
    same = [name == counterpart for name, counterpart in zip(expected, obtained, strict=False)]
    head = same.index(False) if False in same else len(same)
    return [(index, index) for index in range(head)]


def _differ(expected: Event, obtained: Event, comparison: OutputComparison) -> bool:
    if expected.outputs is None or obtained.outputs is None:
        return False
    if len(expected.outputs) != len(obtained.outputs):
        return True
    return any(
        mismatch.kind not in ("stride", "requires_grad")
        for pair in zip(expected.outputs, obtained.outputs, strict=True)
        for mismatch in comparison.compare_tensors(*pair, "")
    )


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
    names = [f"{event.node} ({event.name})" if event.node else event.name for event in events[:3]]
    return (", ".join(names) + (f" and {len(events) - 3} more" if len(events) > 3 else "")) if names else "nothing"


def _describe_inputs(found: Divergence, model: Any, graph: Any, settings: RunSettings) -> tuple[str, ...]:
    """Describe the inputs of the operator that differs: does the error begin there, or did it come in?"""
    if found.positions is None:
        return ()
    in_eager, in_graph = found.positions
    eager, of_graph = _record(model, settings, in_eager), _record(graph, settings, in_graph)
    if eager is None or of_graph is None:
        return ()
    expected, obtained = eager.inputs.get(in_eager, ()), of_graph.inputs.get(in_graph, ())
    described = ", ".join(_describe(tensor) for tensor in expected[:3]) or "none"
    # Where other operators ran before, they are the cause, and the inputs say nothing more.
    origin = "" if found.only_eager or found.only_graph else f"{_describe_error_origin(expected, obtained)}; "
    return (f"{origin}its inputs in eager: {described}",)


def _describe_error_origin(expected: tuple[torch.Tensor, ...], obtained: tuple[torch.Tensor, ...]) -> str:
    if any(tensor.is_nested for tensor in (*expected, *obtained)):
        return "its inputs are nested tensors, which are not measured"
    if [(tensor.shape, tensor.dtype) for tensor in expected] != [(tensor.shape, tensor.dtype) for tensor in obtained]:
        return "it was given other inputs"
    exact = Tolerance(0.0, 0.0)
    found = [
        measure(one, other, exact)
        for one, other in zip(expected, obtained, strict=True)
        if one.layout is torch.strided and not (wrapped_tensors(one) or wrapped_tensors(other))
    ]
    errors = [statistics.largest_absolute.error for statistics in found if statistics is not None]
    if not errors:
        return "its inputs agree exactly, so the error began there"
    return f"its inputs differ already by up to {max(errors):.3g}, so the error grew or came in there"


def _describe(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return f"nested {str(tensor.dtype).removeprefix('torch.')} of {tensor.size(0)}"
    kind = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if not tensor.numel() or tensor.is_meta or tensor.is_complex() or tensor.layout is not torch.strided:
        return kind
    if wrapped_tensors(tensor):
        return f"{type(tensor).__name__} of {kind}"
    wide = tensor.double()
    return f"{kind} in {float(wide.min()):.4g}..{float(wide.max()):.4g}, mean {float(wide.mean()):.4g}"
