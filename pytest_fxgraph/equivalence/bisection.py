"""The first operator at which eager and graph part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import fxcore
from pytest_fxgraph.compare.sequence_alignment import common_subsequence
from pytest_fxgraph.equivalence.error_statistics import measure
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.operator_trace import Event, Recorder, Recording, RecordingInterpreter, positional
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.run import RunFailure, RunSettings, run_model
from pytest_fxgraph.equivalence.tolerance import Tolerance

_SEEN_IN_VALUES = ("value", "shape", "dtype", "structure", "state", "mutation")


@dataclass(frozen=True)
class Divergence:
    """Where eager and graph part."""

    eager: Event | None  # None where the graph runs on after eager's last operator
    graph: Event | None
    only_eager: tuple[Event, ...]  # what ran in one lane alone since the last value that agreed
    only_graph: tuple[Event, ...]
    places: tuple[int, int] | None  # positions of both events in their recordings
    # What ran in one lane alone before values agreed again: a side effect of it may come to light late.
    earlier_eager: tuple[Event, ...] = ()
    earlier_graph: tuple[Event, ...] = ()


def notes_on_mismatch(
    model: Any, graph: Any, settings: RunSettings, comparison: OutputComparison, mismatches: list[Mismatch]
) -> tuple[str, ...]:
    """Look for the cause of a mismatch and say in a few lines what was found."""
    if not any(mismatch.kind in _SEEN_IN_VALUES for mismatch in mismatches):
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
    return (_where_words(found), *_input_words(found, model, graph, settings))


def _record(subject: Any, settings: RunSettings, keep_inputs_of: int | None = None) -> Recording | None:
    """Run once more and write down every operator; None where that fails."""
    recorder = Recorder(subject, keep_inputs_of)
    result = run_model(_recorded_call(subject, recorder), subject, settings)
    return None if isinstance(result, RunFailure) else recorder.recording


def _recorded_call(subject: Any, recorder: Recorder) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if isinstance(subject, fxcore.GraphModule):
            values = positional(subject.graph, args, kwargs)
            if values is not None:
                with recorder:
                    return RecordingInterpreter(subject, recorder).run(*values)
        with recorder:
            return subject(*args, **kwargs)

    return call


def _first_divergence(eager: Recording, graph: Recording, comparison: OutputComparison) -> Divergence | None:
    """Walk along the pairs of operators up to the first whose values differ."""
    expected, obtained = eager.events, graph.events
    last = (0, 0)
    earlier: tuple[list[Event], list[Event]] = ([], [])
    for one, other in _pairs([event.name for event in expected], [event.name for event in obtained]):
        if _differ(expected[one], obtained[other], comparison):
            between = (tuple(expected[last[0] : one]), tuple(obtained[last[1] : other]))
            return Divergence(
                expected[one], obtained[other], *between, (one, other), tuple(earlier[0]), tuple(earlier[1])
            )
        earlier[0].extend(expected[last[0] : one])
        earlier[1].extend(obtained[last[1] : other])
        last = (one + 1, other + 1)
    rest = (tuple(expected[last[0] :]), tuple(obtained[last[1] :]))
    return Divergence(None, None, *rest, places=None) if any(rest) else None


def _pairs(expected: list[str], obtained: list[str]) -> list[tuple[int, int]]:
    """Pair the operators of two runs by name and order."""
    if expected == obtained:
        return [(index, index) for index in range(len(expected))]
    numbers: dict[str, int] = {}
    one, other = ([numbers.setdefault(name, len(numbers)) for name in names] for names in (expected, obtained))
    found = common_subsequence(one, other)
    if found is not None:
        return found
    # Too little in common to be paired: what both begin with is certain.
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
        for one, other in zip(expected.outputs, obtained.outputs, strict=True)
        for mismatch in comparison.compare_tensors(one, other, "")
    )


def _where_words(found: Divergence) -> str:
    alone = found.only_eager or found.only_graph
    if alone:
        apart = f"eager ran {_names(found.only_eager)} and the graph ran {_names(found.only_graph)}"
        first = found.only_eager[0] if found.only_eager else found.eager
        words = f"first parted where {apart}{_place(first) if first else ''}"
        return f"{words}; seen first in {_running(found.graph)}" if found.graph else words
    words = f"first parted at {_running(found.graph)}{_place(found.eager) if found.eager else ''}"
    if not (found.earlier_eager or found.earlier_graph):
        return words
    source = found.earlier_eager[0].source() if found.earlier_eager else None
    ran = f"eager ran {_names(found.earlier_eager)}{f' ({source})' if source else ''}"
    return f"{words}; earlier, {ran} and the graph ran {_names(found.earlier_graph)}"


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


def _input_words(found: Divergence, model: Any, graph: Any, settings: RunSettings) -> tuple[str, ...]:
    """Say what went into the parted operator, and whether the error began there or grew there."""
    if found.places is None:
        return ()
    one, other = found.places
    eager, of_graph = _record(model, settings, one), _record(graph, settings, other)
    if eager is None or of_graph is None:
        return ()
    expected, obtained = eager.inputs.get(one, ()), of_graph.inputs.get(other, ())
    described = ", ".join(_describe(tensor) for tensor in expected[:3]) or "none"
    # Where other operators ran before, they are the cause, and what this one was given tells nothing more.
    begun = "" if found.only_eager or found.only_graph else f"{_begin_or_grow(expected, obtained)}; "
    return (f"{begun}its inputs in eager: {described}",)


def _begin_or_grow(expected: tuple[torch.Tensor, ...], obtained: tuple[torch.Tensor, ...]) -> str:
    if any(tensor.is_nested for tensor in (*expected, *obtained)):
        return "its inputs are nested tensors, which are not measured"
    if [(tensor.shape, tensor.dtype) for tensor in expected] != [(tensor.shape, tensor.dtype) for tensor in obtained]:
        return "it was given other inputs"
    exact = Tolerance(0.0, 0.0)
    found = [
        measure(one, other, exact) for one, other in zip(expected, obtained, strict=True) if one.layout is torch.strided
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
    wide = tensor.double()
    return f"{kind} in {float(wide.min()):.4g}..{float(wide.max()):.4g}, mean {float(wide.mean()):.4g}"
