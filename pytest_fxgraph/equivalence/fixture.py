"""Does a graph do what its model does? Both run on the same inputs, and all that can be seen is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from torch import nn

import fxcore
from pytest_fxgraph.capture.subjects import Adapter, model_of, to_graph_module
from pytest_fxgraph.capture.tracing import trace as trace_model
from pytest_fxgraph.equivalence.check import EquivalenceCheck, Runs
from pytest_fxgraph.equivalence.inputs import arguments_of
from pytest_fxgraph.equivalence.outputs import OutputComparison, ValueComparison
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.rng import RngState
from pytest_fxgraph.equivalence.state.guard import StateGuard
from pytest_fxgraph.equivalence.state.lazy_modules import initialised
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool
from pytest_fxgraph.equivalence.state.training_mode import TrainingFlags, checked_modes, follow_mode, set_mode
from pytest_fxgraph.equivalence.tolerance import ToleranceRule

Trace = Callable[[Any], fxcore.GraphModule]


class Equivalence:
    """Runs a model eagerly and as a graph on the same inputs and compares: the fixture `fx_equivalence`."""

    def __init__(
        self,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        seed: int | None = None,
        trace: Trace | None = None,
        compare_outputs: ValueComparison | None = None,
        adapt: Adapter | None = None,
        reproduction: ReproductionFolder | None = None,
        spare: BufferPool | None = None,
    ) -> None:
        self._spare = spare or BufferPool()
        self._rtol, self._atol, self._seed = rtol, atol, seed or 0
        self._adapt = adapt
        self._trace = trace or (trace_model if adapt is None else self._trace_adapted)
        self._compare_outputs = compare_outputs
        self._reproduction = reproduction

    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        graph: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        grads: bool = False,
        modes: Sequence[str] = ("eval",),
        samples: int = 1,
        seed: int | None = None,
        fp64_reference: bool = False,
    ) -> fxcore.GraphModule:
        """Compare and return the graph; a mismatch is an AssertionError.

        Without a graph the model is traced, once in each mode, and the graph of the first mode is returned. Model,
        inputs and random generators are left as they were.
        """
        __tracebackhide__ = True
        rule = ToleranceRule(self._rtol if rtol is None else rtol, self._atol if atol is None else atol)
        check = EquivalenceCheck(
            arguments_of(inputs, kwargs),
            OutputComparison(rule, requires_grad=grads, own_comparison=self._compare_outputs),
            samples,
            self._seed if seed is None else seed,
            grads,
            fp64_reference=fp64_reference,
            reproduction=self._reproduction,
        )
        model = model_of(model, self._adapt)
        given = to_graph_module(graph, self._adapt) if graph is not None else None
        checked: list[fxcore.GraphModule] = []
        rng, training = RngState.now(), TrainingFlags(model, given)
        try:
            if given is None:
                model = initialised(model, check.arguments, check.seed)
            # A loop, for a comprehension is a frame of its own, which pytest would show above the mismatch.
            for mode in checked_modes(modes):
                checked.append(self._check_in_mode(check, model, given, mode))
        finally:
            training.restore()
            rng.restore()
        return checked[0]

    def _trace_adapted(self, model: Any) -> fxcore.GraphModule:
        """Make the graph as an adapter says; trace, where none knows the model."""
        return to_graph_module(model, self._adapt)

    def _check_in_mode(
        self, check: EquivalenceCheck, model: Any, given: fxcore.GraphModule | None, mode: str
    ) -> fxcore.GraphModule:
        """Compare in one mode. A trace is made in that mode: functional dropout has its flag written into the graph."""
        __tracebackhide__ = True
        set_mode(model, mode)
        guard = StateGuard(model, spare=self._spare)
        graph = given
        try:
            if graph is None:
                graph = self._trace(model)
                # What a forward does to a buffer before it meets the first input is done while tracing, for good.
                # What it writes behind torch's back is seen when all is read after the second lane: then both run anew.
                guard.restore(trust_versions=True)
            follow_mode(graph, model, mode)
            check.run(model, Runs(graph), mode, guard)
        finally:
            guard.release()
        return graph


def check_equivalent(
    model: Any,
    graph: Any,
    inputs: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    grads: bool = False,
    samples: int = 1,
    seed: int = 0,
    subject: str = "graph",
    compare_outputs: ValueComparison | None = None,
) -> None:
    """Compare a model with a graph, both in the mode they are in; a mismatch is an AssertionError."""
    __tracebackhide__ = True
    comparison = OutputComparison(ToleranceRule(rtol, atol), requires_grad=grads, own_comparison=compare_outputs)
    check = EquivalenceCheck(arguments_of(inputs, kwargs), comparison, samples, seed, grads, subject)
    runs_as_it_is = isinstance(graph, (nn.Module, FunctionType, MethodType))
    check.run(model, Runs(graph if runs_as_it_is else to_graph_module(graph)), None)
