"""A recording of Dynamo: the graphs that it makes of a model's bytecode, and the breaks between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

import fxcore
from fxcore import interop
from pytest_fxgraph.captures.capture import Break, Capture, Guard, Recompile, SkippedFrame, named_bounds
from pytest_fxgraph.captures.guards import FailedGuard, guards_of, read_failure, recompiles_of
from pytest_fxgraph.captures.places import Place, UserCode, in_module, is_of_torch
from pytest_fxgraph.captures.reasons import first_line, read_reason
from pytest_fxgraph.captures.request import Call, CaptureRequest, copied_call
from pytest_fxgraph.captures.state_names import names_of_state, state_of_inputs, with_named_state
from pytest_fxgraph.captures.torch_internals import (
    DynamoLog,
    FailedFrame,
    GuardedValue,
    GuardFailure,
    Unavailable,
    dynamo_reset,
    mark_size,
    shape_facts,
)
from pytest_fxgraph.document.capture_notes import NOTES
from pytest_fxgraph.document.exported_ranges import RANGES
from pytest_fxgraph.errors import CaptureError

_OTHER_STRUCTURE = (
    "dynamic_shapes= has another structure than the inputs; give a dict of sizes for each tensor, and None for "
    "anything else"
)
# Turns a graph of Dynamo, its example inputs and the names of the state among its inputs (by position) into a function.
Lower = Callable[[Any, Sequence[Any], Mapping[int, str]], Callable[..., Any]]


class DynamoRecording:
    """The graphs, breaks, recompiles and guards of Dynamo in some calls of one model."""

    def __init__(self, request: CaptureRequest) -> None:
        self.request = request
        self.graphs: list[fxcore.GraphModule] = []
        self._code = UserCode(request.model)
        self._names = names_of_state(request.model)
        self._recompiles: list[Recompile] = []
        self._relations: list[str] = []
        self._ranges: dict[str, tuple[int | None, int | None]] | Unavailable = {}
        self._breaks: list[Break] | Unavailable = []
        self._guards: dict[Guard, None] = {}
        self._skipped: list[SkippedFrame] | Unavailable = []
        self._fallbacks: list[SkippedFrame] | Unavailable = []

    def run(self, lower: Lower, *, is_backward_run: bool = False) -> list[tuple[Call, Any]]:
        """Make all calls, lower each graph by `lower`, and return the arguments and the result of each call.

        Dynamo is reset before and after. Raises CaptureError, with the user's line, if the model itself fails.
        """
        made: list[tuple[Call, Any]] = []
        with dynamo_reset():
            log = DynamoLog()
            log.on_guards = self._take_guards
            is_dynamic = self.request.dynamic_shapes if isinstance(self.request.dynamic_shapes, bool) else None
            compiled = log.compiled(self.request.model, self._backend(lower), is_dynamic=is_dynamic)
            for number, call in enumerate(self.request.calls, start=1):
                self.request.change_before(number)
                copied = self._marked(copied_call(call))
                failed: list[FailedGuard] = []
                log.on_failure = partial(self._take_failure, number, self.request.arguments(copied), failed)
                with self.request.failures_told(number):
                    outputs = compiled(*copied[0], **copied[1])
                    if is_backward_run:
                        _run_backward(outputs)
                made.append((copied, outputs))
                self._recompiles += recompiles_of(failed)
            self._read(log)
        return made

    def _take_guards(self, facts: list[GuardedValue]) -> None:
        # At once, because a later call may change the functions and modules that give parts their names.
        self._guards.update(dict.fromkeys(guards_of(facts, self.request.model, self.request.own_name)))

    def _take_failure(
        self, call: int, arguments: Mapping[str, Any], found: list[FailedGuard], failure: GuardFailure
    ) -> None:
        place = self._code.place(failure.code.co_filename, failure.code.co_firstlineno, failure.code.co_name)
        found.append((failure, read_failure(failure, call, arguments, place)))

    def capture(
        self, graphs: Sequence[fxcore.GraphModule], *, make: Callable[..., Capture] = Capture, **further: Any
    ) -> Capture:
        """Return the capture with these graphs, made by `make`."""
        request = self.request
        guards = sorted(self._guards, key=lambda guard: (guard.name, guard.expected))
        return make(
            frontend=request.frontend,
            model_name=request.name,
            graphs=graphs,
            breaks=self._breaks,
            recompiles=self._recompiles,
            guards=[*guards, *(Guard("sizes", text, "") for text in self._relations)],
            skipped=self._skipped,
            fallbacks=self._fallbacks,
            ranges=self._ranges,
            **further,
        )

    def _backend(self, lower: Lower) -> Callable[[Any, Sequence[Any]], Callable[..., Any]]:
        def backend(graph_module: Any, examples: Sequence[Any]) -> Callable[..., Any]:
            # FSDP exchanges the parameters of a module for the time of its forward.
            state = state_of_inputs(examples, {**names_of_state(self.request.model), **self._names})
            placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
            calls = [node for node in graph_module.graph.nodes if node.op not in ("placeholder", "output", "get_attr")]
            # Dynamo hands over graphs without a call where Python asked a known tensor for a number.
            if calls:
                made = interop.from_torch(graph_module)
                self._read_shapes(made)
                name_inputs(made, examples)
                named = {placeholders[place]: name for place, name in state.items()}
                self.graphs.append(with_named_state(made, named, self.request.model))
            return lower(graph_module, examples, state)

        return backend

    def _read_shapes(self, graph_module: fxcore.GraphModule) -> None:
        try:
            ranges, relations = note_shapes(graph_module)
        except CaptureError as error:
            self._ranges = Unavailable(str(error))
            return
        if not isinstance(self._ranges, Unavailable):
            self._ranges.update(named_bounds(ranges))
        self._relations += [text for text in relations if text not in self._relations]

    def _read(self, log: DynamoLog) -> None:
        """Turn Dynamo's log into findings. A place counts once, however many times Dynamo met it."""
        reasons, failed = log.break_reasons(), log.failed_frames()
        if isinstance(failed, Unavailable):
            self._breaks = self._skipped = self._fallbacks = failed
            return
        # torch reports a reached recompile limit without a place. The function of the last failed guard has one.
        limited = [each for each in failed if each.file is None]
        given_up = [each for each in failed if each.file is not None and each.kind]
        frames = [self._skipped_frame(each) for each in given_up]
        empty = [self._empty_frame(each) for each in failed if each.file is not None and not each.kind]
        self._skipped = list(dict.fromkeys([*frames, *(each for each in empty if each is not None)]))
        place = self._recompiles[-1].place if self._recompiles else Place("", 0, "", "")
        self._fallbacks = [SkippedFrame(place, "compiled too often", first_line(each.reason)) for each in limited]
        if isinstance(reasons, Unavailable):
            self._breaks = reasons
            return
        breaks = [self._break(each.reason, each.user_stack) for each in reasons]
        told = {(found.place.file, found.place.line) for found in breaks}
        for each, frame in zip(given_up, frames, strict=True):
            # The line may belong to a called function, whose break is in the list already.
            if (frame.place.file, frame.place.line) not in told:
                breaks.append(break_at(each.reason, (frame.place,)))
        self._breaks = list(dict.fromkeys(_with_callers(breaks)))

    def _break(self, reason: str, stack: Sequence[Any]) -> Break:
        frames = tuple([self._code.place(each.filename, each.lineno, each.name) for each in stack])
        # Frames of torch itself do not help a reader, and change with every release.
        own = tuple([frame for frame in frames if not is_of_torch(frame.file)])
        return break_at(reason, own or (self._code.forward,))

    def _skipped_frame(self, failed: FailedFrame) -> SkippedFrame:
        line = failed.line or failed.first_line or 0
        place = self._code.place(str(failed.file), line, str(failed.function))
        if is_of_torch(place.file) and not place.module:  # a wrapper that torch puts around the model
            place = self._code.forward
        return SkippedFrame(place, read_reason(failed.reason, place.source).kind, first_line(failed.reason))

    def _empty_frame(self, failed: FailedFrame) -> SkippedFrame | None:
        """Describe a function of the model without an operator; return None for a function outside the model."""
        place = self._code.place(str(failed.file), failed.first_line or 0, str(failed.function))
        if not self._code.has(place):
            return None
        return SkippedFrame(place, "no operator in a call", "Dynamo found nothing to capture and leaves it to Python")

    def _marked(self, call: Call) -> Call:
        """Mark the symbolic dimensions on the copies of the inputs."""
        shapes = self.request.dynamic_shapes
        if shapes is None or isinstance(shapes, bool):
            return call
        if isinstance(shapes, Mapping):
            by_name = {**call[1], **self.request.arguments(call)}
            unknown = [name for name in shapes if name not in by_name]
            if unknown:
                known = ", ".join(repr(name) for name, value in by_name.items() if value is not self.request.model)
                raise CaptureError(
                    f"dynamic_shapes= names {unknown[0]!r}, and {self.request.name} takes {known}; "
                    "write dynamic_shapes={name: {dimension: size}}"
                )
            pairs = [(by_name[name], each) for name, each in shapes.items()]
        else:
            pairs = list(zip(call[0], shapes, strict=False))
        for value, spec in pairs:
            _mark(value, spec)
        return call


def _run_backward(outputs: Any) -> None:
    """Run the backward pass of all outputs that require a gradient."""
    leaves = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if leaves:
        torch.autograd.backward(leaves, [torch.ones_like(leaf) for leaf in leaves])


def note_shapes(graph_module: fxcore.GraphModule) -> tuple[dict[Any, Any], list[str]]:
    """Note the ranges of the symbols and the assumptions about symbols in the meta of a graph; return both.

    Raises InternalsError if this torch keeps no ranges.
    """
    ranges, relations = shape_facts(graph_module.graph)
    graph_module.meta[RANGES] = ranges
    graph_module.meta[NOTES] = tuple([f"guard: {text}" for text in relations])
    return ranges, relations


def name_inputs(graph_module: fxcore.GraphModule, examples: Sequence[Any] = ()) -> None:
    """Name inputs that are sizes `size_0`, `size_1` and on, because torch's symbols differ between its versions.

    Meshes are `mesh_0` and on, because torch names them by the hooks and closures that hold them.
    """
    inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    taken = {node.name for node in graph_module.graph.nodes}
    meshes = [node for node, value in zip(inputs, examples, strict=False) if hasattr(value, "mesh_dim_names")]
    for kind, named in (("size", [node for node in inputs if node.type is torch.SymInt]), ("mesh", meshes)):
        for number, node in enumerate(named):
            numbered = (f"{kind}_{n}" for n in range(number, len(taken) + number + 1))
            name = next(name for name in numbered if name not in taken)
            taken.add(name)
            node.name = node.target = name


def _mark(value: Any, spec: Any) -> None:
    if isinstance(value, torch.Tensor):
        dimensions = dict(spec) if isinstance(spec, Mapping) else dict(enumerate(spec or ()))
        for dimension, size in dimensions.items():
            if isinstance(size, (Mapping, list, tuple)) or not isinstance(dimension, int):
                raise CaptureError(_OTHER_STRUCTURE)
            if size is not None:
                mark_size(value, dimension, size)
    elif spec is not None:
        leaves = pytree.tree_leaves(value)
        specs = pytree.tree_leaves(spec, is_leaf=lambda each: isinstance(each, Mapping) and _is_of_dimensions(each))
        is_one = len(leaves) == 1 and leaves[0] is value  # neither a tensor nor a structure of them
        if len(leaves) != len(specs) or (is_one and any(each is not None for each in specs)):
            raise CaptureError(_OTHER_STRUCTURE)
        for leaf, each in zip(leaves, specs, strict=True):
            if not is_one:
                _mark(leaf, each)


def _is_of_dimensions(spec: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, int) for key in spec)


def _with_callers(breaks: Sequence[Break]) -> list[Break]:
    """Give all breaks in one function the same modules. After a break, Dynamo no longer knows the calling module."""
    modules: dict[tuple[str, str], dict[str, None]] = {}
    for each in breaks:
        if each.place.module:
            modules.setdefault((each.place.file, each.place.function), {})[each.place.module] = None
    found = [", ".join(modules.get((each.place.file, each.place.function), ())) for each in breaks]
    return [
        each if each.place.module == module else replace(each, place=replace(each.place, module=module))
        for each, module in zip(breaks, found, strict=True)
    ]


def break_at(reason: str, frames: tuple[Place, ...]) -> Break:
    """Describe a break by torch's reason and the user's frames, the innermost last."""
    place = in_module(frames) if frames else Place("", 0, "", "")
    read = read_reason(reason, place.source)
    return Break(read.kind, read.operator, place, read.is_avoidable, read.cure, first_line(reason), frames)
