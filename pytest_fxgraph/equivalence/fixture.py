"""Does a graph do what its model does? Both run on the same inputs, and all that can be seen is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from torch import nn

import fxcore
from pytest_fxgraph.capture.subjects import (
    Adapter,
    is_exported_program,
    is_torch_graph_module,
    model_of,
    to_graph_module,
)
from pytest_fxgraph.capture.tracing import trace as trace_model
from pytest_fxgraph.choices import Mode
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.exported_call import called_as_module, called_graph, lifted_inputs, refuse_lifted
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.equivalence.outputs import OutputComparison, ValueComparison
from pytest_fxgraph.equivalence.preparation import TrainingFlags, checked_modes, follow_mode, initialized, set_mode
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.state.guard import StateGuard
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool
from pytest_fxgraph.equivalence.tolerance import ToleranceRule
from pytest_fxgraph.global_state import global_state_kept
from pytest_fxgraph.rng import generators_kept

Trace = Callable[[Any], fxcore.GraphModule]


@dataclass(frozen=True)
class CheckOptions:
    """What one call asks of a comparison; None follows what holds for the test."""

    rtol: float | None = None
    atol: float | None = None
    grads: bool = False
    samples: int = 1
    seed: int | None = None
    fp64_reference: bool = False


class CheckDefaults:
    """What holds for every comparison of one test unless a call says otherwise; base of the fixtures that compare."""

    def __init__(
        self,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        seed: int | None = None,
        compare_outputs: ValueComparison | None = None,
        adapt: Adapter | None = None,
        reproduction: ReproductionFolder | None = None,
        buffer_pool: BufferPool | None = None,
    ) -> None:
        """Set the defaults; a tolerance of None follows the dtype."""
        self._rtol, self._atol, self._seed = rtol, atol, seed or 0
        self._compare_outputs = compare_outputs
        self._adapt = adapt
        self._reproduction = reproduction
        self._buffer_pool = buffer_pool or BufferPool()

    def _new_check(self, arguments: Arguments, options: CheckOptions) -> EquivalenceCheck:
        rtol = self._rtol if options.rtol is None else options.rtol
        atol = self._atol if options.atol is None else options.atol
        return EquivalenceCheck(
            arguments,
            OutputComparison(ToleranceRule(rtol, atol), options.grads, self._compare_outputs),
            samples=options.samples,
            seed=self._seed if options.seed is None else options.seed,
            grads=options.grads,
            fp64_reference=options.fp64_reference,
            reproduction=self._reproduction,
        )


class FxEquivalence(CheckDefaults):
    """Runs a model eagerly and as a graph on the same inputs and compares: the fixture `fx_equivalence`."""

    def __init__(self, *, trace: Trace | None = None, **defaults: Any) -> None:
        """Take the options of CheckDefaults, and `trace`, which makes the graph of a model."""
        super().__init__(**defaults)
        self._trace = trace or (trace_model if self._adapt is None else self._trace_adapted)

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
        modes: Mode | Sequence[Mode] = ("eval",),
        samples: int = 1,
        seed: int | None = None,
        fp64_reference: bool = False,
    ) -> fxcore.GraphModule:
        """Compare a model with its graph in each mode, and return the graph of the first mode.

        Without `graph` the model is traced, once in each mode; an ExportedProgram, or a graph module of torch.fx, is
        compared with its own graph. `inputs` is a tuple of positional arguments or one tensor; with `samples=n`, n - 1
        further inputs of the same shapes are drawn. Model, inputs and random generators are restored.

        Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself
        fails, InputsError (a TypeError) or ValueError for wrong options.
        """
        __tracebackhide__ = True
        options = CheckOptions(rtol, atol, grads, samples, seed, fp64_reference)
        check = self._new_check(arguments_of(inputs, kwargs), options)
        model, given = self._subjects(model_of(model, self._adapt), graph, check.arguments)
        checked: list[fxcore.GraphModule] = []
        training = TrainingFlags(model, given)
        with generators_kept(), global_state_kept():
            try:
                if given is None:
                    model = initialized(model, check.arguments, check.seed)
                # A loop, for a comprehension is a frame of its own, which pytest would show above the mismatch.
                wanted = checked_modes(modes)
                for mode in wanted:
                    checked.append(self._check_in_mode(check, model, given, mode, wanted))
            finally:
                training.restore()
        return checked[0]

    def _subjects(self, model: Any, graph: Any, arguments: Arguments) -> tuple[Any, fxcore.GraphModule | None]:
        """Return what is run as the model, and the graph that it is compared with; None for one that is to be traced.

        Raises SubjectError for the graph module of an exported program without its program.
        """
        refuse_lifted(model, arguments)
        if graph is not None:
            return called_as_module(model), called_graph(graph, model, arguments, self._adapt)
        if is_exported_program(model):
            return called_as_module(model), to_graph_module(model)
        return called_as_module(model), None

    def _graph_of(self, model: Any) -> fxcore.GraphModule:
        """Trace a model; take the graph of one that is a graph module of torch.fx, which train() may rewrite."""
        return to_graph_module(model) if is_torch_graph_module(model) else self._trace(model)

    def _trace_adapted(self, model: Any) -> fxcore.GraphModule:
        """Make the graph as an adapter does; trace the model if no adapter knows it."""
        return to_graph_module(model, self._adapt)

    def _check_in_mode(
        self, check: EquivalenceCheck, model: Any, given: fxcore.GraphModule | None, mode: str, modes: tuple[str, ...]
    ) -> fxcore.GraphModule:
        """Compare in one mode. A trace is made in that mode: functional dropout has its flag written into the graph."""
        __tracebackhide__ = True
        shown = set_mode(model, mode, modes)
        guard = StateGuard(model, buffer_pool=self._buffer_pool)
        graph = given
        try:
            if graph is None:
                graph = self._graph_of(model)
                # A forward may change buffers while it is traced. Versions suffice: a write that they do not count is
                # found when all is read after the second run, and then both run again.
                guard.restore(trust_versions=True)
            follow_mode(graph, model, shown)
            check.run(model, GraphCall(graph, graph), shown, guard)
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
    """Compare a model with a graph, both in the mode they are in; `subject` is what messages call the graph.

    Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself fails.
    """
    __tracebackhide__ = True
    comparison = OutputComparison(ToleranceRule(rtol, atol), grads, compare_outputs)
    check = EquivalenceCheck(arguments_of(inputs, kwargs), comparison, samples, seed, grads, subject)
    refuse_lifted(model, check.arguments)
    runnable = graph if isinstance(graph, (nn.Module, FunctionType, MethodType)) else to_graph_module(graph)
    if lifted_inputs(runnable, check.arguments):
        runnable = called_graph(graph, model, check.arguments)
    check.run(called_as_module(model), GraphCall(runnable, runnable), None)
