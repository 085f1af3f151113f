"""Does a transform keep what a model computes? The fixture `fx_transform`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

import fxcore
from pytest_fxgraph.capture.subjects import model_of, to_graph_module
from pytest_fxgraph.capture.tracing import trace
from pytest_fxgraph.choices import Check, Mode, NumberByPath
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.fixture import CheckDefaults, CheckOptions
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.preparation import TrainingFlags, checked_modes, follow_mode, initialized, set_mode
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.equivalence.state.guard import StateGuard
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.global_state import global_state_kept
from pytest_fxgraph.operator_patterns import OwnName
from pytest_fxgraph.rng import generators_kept
from pytest_fxgraph.transform.graph_checks import (
    check_graph,
    check_inputs,
    check_meta,
    dead_nodes,
    inputs_of,
    meta_keys,
)
from pytest_fxgraph.transform.input_snapshot import InputSnapshot
from pytest_fxgraph.transform.model_snapshot import ClassSnapshot, ModelSnapshot
from pytest_fxgraph.transform.result import TransformResult


@dataclass(frozen=True)
class Applied:
    """The result of one transform."""

    graph_module: fxcore.GraphModule
    call: Callable[..., Any]  # runs it: the graph module, or an interpreter of its graph
    modified: bool | None = None  # what the pass says; None where it says nothing

    def graph_call(self) -> GraphCall:
        """Return what runs, and what holds the state."""
        return GraphCall(self.call if isinstance(self.call, nn.Module) else self.graph_module, self.call)


def steps_of(transform: Any) -> list[tuple[str, Any]]:
    """List one transform, or those of a list, with their names.

    Raises SubjectError for an empty list and for what cannot be called.
    """
    steps = list(transform) if isinstance(transform, (list, tuple)) else [transform]
    if not steps:
        raise SubjectError("an empty list of transforms checks nothing; hand over at least one")
    for step in steps:
        if not callable(step):
            raise SubjectError(
                f"{step!r} is no transform: expected a function of a GraphModule, a Transformer or Interpreter class, "
                "a pass, or a list of these"
            )
    return [(name_of_step(step), step) for step in steps]


def name_of_step(step: Any) -> str:
    """Return the name of a transform: of the function, or of the class."""
    try:
        name = getattr(step, "__name__", None)
    except Exception:  # a property of the user's
        name = None
    return str(name or type(step).__name__)


def apply_step(step: Any, graph_module: fxcore.GraphModule) -> Applied:
    """Apply one transform to a graph module, which it may change.

    Raises SubjectError if it returns something other than a module, a graph, a PassResult or None.
    """
    if isinstance(step, type) and issubclass(step, fxcore.Transformer):
        return _applied(step, step(graph_module).transform(), graph_module)
    if isinstance(step, type) and issubclass(step, fxcore.Interpreter):
        return Applied(graph_module, InterpreterCall(step, graph_module))
    return _applied(step, step(graph_module), graph_module)


def _applied(step: Any, made: Any, given: fxcore.GraphModule) -> Applied:
    modified: bool | None = None
    if hasattr(made, "graph_module") and hasattr(made, "modified"):  # a PassResult, whoever defined it
        made, modified = made.graph_module, bool(made.modified)
    if made is None:
        made = given
    if isinstance(made, fxcore.GraphModule):
        return Applied(made, made, modified)
    if isinstance(made, fxcore.Graph):
        module = fxcore.GraphModule(given, made)
        return Applied(module, module, modified)
    if isinstance(made, nn.Module):
        return Applied(to_graph_module(made), made, modified)
    raise SubjectError(
        f"{name_of_step(step)} returned {type(made).__name__}; a transform returns a module, a graph, a PassResult, "
        "or None after changing the graph module it was given"
    )


def _listed(changes: list[str]) -> str:
    return "; ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")


class FxTransform(CheckDefaults):
    """Traces a model, transforms the graph, checks it, and compares it with the model run eagerly."""

    def __init__(self, *, own_name: OwnName | None = None, **defaults: Any) -> None:
        """Set the defaults; `own_name` is asked first for the names of functions."""
        super().__init__(**defaults)
        self._own_name = own_name

    def __call__(
        self,
        transform: Any,
        model: Any,
        inputs: Any,
        *,
        kwargs: Mapping[str, Any] | None = None,
        rtol: NumberByPath | None = None,
        atol: NumberByPath | None = None,
        grads: bool = False,
        modes: Mode | Sequence[Mode] = ("eval",),
        samples: int = 1,
        seed: int | None = None,
        inplace: bool = False,
        idempotent: bool = False,
        concrete_args: dict[str, Any] | None = None,
        fp64_reference: bool | None = None,
        strict_inputs: bool | None = None,
        keeps_meta: tuple[str, ...] | bool = False,
        sqnr: float | None = None,
        cosine: float | None = None,
        checks: Check | Iterable[Check] | None = None,
    ) -> TransformResult:
        """Check a transform, or a list of them one after the other, and return the graphs before and after.

        A transform is a function of a GraphModule, a Transformer or Interpreter class, or a pass. In each mode the
        model is traced and transformed anew; the result is that of the first mode. Without `inplace` the transform
        must leave the model as it was; with `idempotent`, a second application must change nothing. With `keeps_meta`,
        nodes that keep their name must keep all entries of their meta, or those named.

        Raises AssertionError, naming the transform, if it breaks one of these rules, leaves a malformed graph, or if
        the results differ (MismatchError); EagerError if the model itself fails; SubjectError for what is no transform.
        """
        __tracebackhide__ = True
        options = CheckOptions(rtol, atol, grads, samples, seed, fp64_reference, sqnr, cosine, checks, strict_inputs)
        check = self.new_check(arguments_of(inputs, kwargs), options)
        model = model_of(model, self._adapt)
        run = _TransformRun(transform, check, inplace, idempotent, concrete_args, keeps_meta, self._buffer_pool)
        results: list[TransformResult] = []
        training = TrainingFlags(model)
        with generators_kept(), global_state_kept():
            try:
                model = initialized(model, check.arguments, check.seed)
                # A loop, for a comprehension is a frame of its own, which pytest would show above the mismatch.
                for mode in checked_modes(modes):
                    results.append(run.in_mode(model, mode))
            finally:
                training.restore()
        # Both graphs go back to the model's own mode, for whoever looks at them side by side.
        for graph in (results[0].before, results[0].after):
            follow_mode(graph, model, "train" if getattr(model, "training", False) else "eval")
        return replace(results[0], own_name=self._own_name)


@dataclass(frozen=True)
class _TransformRun:
    """One transform with all that was asked of it."""

    transform: Any
    check: EquivalenceCheck
    inplace: bool
    idempotent: bool
    concrete_args: dict[str, Any] | None
    keeps_meta: tuple[str, ...] | bool
    buffer_pool: BufferPool

    def in_mode(self, model: Any, mode: str) -> TransformResult:
        """Trace, transform and compare in one mode; raises AssertionError, as FxTransform does."""
        __tracebackhide__ = True
        set_mode(model, mode)
        # A model that may be changed cannot be what its graph is compared with.
        reference = copy.deepcopy(model) if self.inplace else model
        guard = StateGuard(reference, buffer_pool=self.buffer_pool)
        try:
            return self._in_mode(model, reference, mode, guard)
        finally:
            guard.release()

    def _in_mode(self, model: Any, reference: Any, mode: str, guard: StateGuard) -> TransformResult:
        __tracebackhide__ = True
        traced = trace(reference, concrete_args=self.concrete_args)
        before = fxcore.GraphModule(traced, copy.deepcopy(traced.graph))
        given = trace(model, concrete_args=self.concrete_args) if self.inplace else traced
        guard.restore()
        steps = steps_of(self.transform)
        applied = Applied(given, given)
        for number, (name, step) in enumerate(steps, start=1):
            subject = f"graph after {name}" if len(steps) == 1 else f"graph after pass {number} ({name})"
            applied = self._step(step, name, applied.graph_module, model)
            graph_call = applied.graph_call()
            follow_mode(graph_call.graph, reference, mode)
            replace(self.check, subject=subject).run(reference, graph_call, mode, guard)
            if self.idempotent:
                self._check_idempotent(step, name, applied.graph_module, model)
        return TransformResult(before, applied.graph_module, tuple(name for name, _ in steps))

    def _step(self, step: Any, name: str, given: fxcore.GraphModule, model: Any) -> Applied:
        """Apply one transform and check that the graph is well-formed and the model unchanged."""
        __tracebackhide__ = True
        dead_before = dead_nodes(given)
        text_before, meta_before, inputs_before = str(given.graph), meta_keys(given), inputs_of(given)
        snapshot = ClassSnapshot(model) if self.inplace else ModelSnapshot(model)
        inputs = InputSnapshot(self.check.arguments)
        with global_state_kept() as before:
            try:
                applied = apply_step(step, given)
            except BaseException:
                inputs.restore()
                snapshot.restore()
                raise
            left = before.changes()
        if left:
            told = ", ".join(f"{setting} ({change})" for setting, change in left.items())
            raise AssertionError(
                f"{name} changed what torch keeps for the whole process, and left it so: {told}; it was put back. "
                "Set it in a with block, or restore it before the pass returns"
            )
        changed_inputs = inputs.changes()
        if changed_inputs:
            inputs.restore()
            raise AssertionError(
                f"{name}, while it ran, changed the inputs of the check: {_listed(changed_inputs)}; they were put "
                "back. A pass that runs the graph on an example must run it on a copy (x.clone())"
            )
        changes = snapshot.changes()
        if changes:
            snapshot.restore()
            raise AssertionError(
                f"{name} changed the model that it was given: {_listed(changes)}. "
                "Copy what is to be changed (copy.deepcopy), or check it with inplace=True if that is meant"
            )
        check_graph(applied.graph_module, name, dead_before)
        if applied.call is applied.graph_module:  # a module of the user's own may name its inputs as it likes
            check_inputs(applied.graph_module, name, inputs_before)
        check_meta(applied.graph_module, name, meta_before, self.keeps_meta)
        if applied.modified is False and str(applied.graph_module.graph) != text_before:
            raise AssertionError(f"{name} returned modified=False, and yet it changed the graph")
        return applied

    def _check_idempotent(self, step: Any, name: str, once: fxcore.GraphModule, model: Any) -> None:
        first = build_document(once)
        again = fxcore.GraphModule(once, copy.deepcopy(once.graph))
        second = build_document(self._step(step, name, again, model).graph_module)
        difference = compare_documents(first, second)
        if not difference.is_empty:
            change = difference.changes[0]
            raise AssertionError(
                f"{name} is not idempotent: applied twice it gives another graph than applied once; "
                f"{len(difference.changes)} differences, the first: {change.subject} {change.where} {change.action}"
            )
