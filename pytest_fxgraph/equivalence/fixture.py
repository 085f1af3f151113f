"""The fixture `fx_equivalence` and the function `assert_equivalent`: a graph does the same as its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import nn

import fxcore
from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.arguments import shows_options
from pytest_fxgraph.captures.choice import checked_frontend, other_frontends_named, runnable_by
from pytest_fxgraph.captures.subjects import (
    is_exported_program,
    is_torch_graph_module,
    model_of,
    only_program,
    to_graph_module,
)
from pytest_fxgraph.captures.tracing import trace_for_inputs
from pytest_fxgraph.equivalence.check import GraphCall
from pytest_fxgraph.equivalence.exported_call import called_as_module, called_graph, lifted_inputs, refuse_lifted
from pytest_fxgraph.equivalence.inputs import Arguments, arguments_of
from pytest_fxgraph.equivalence.options import CALL_DEFAULTS, DEFAULTS, CheckDefaults, EquivalenceOptions, RankOptions
from pytest_fxgraph.equivalence.preparation import checked_modes, follow_mode, initialized, set_mode, training_kept
from pytest_fxgraph.equivalence.search.search import SearchBudget, SearchReport, search_further
from pytest_fxgraph.errors import ChoiceError, SubjectError
from pytest_fxgraph.vacuity import vacuous_examples_rejected

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pytest_fxgraph.equivalence.rank_check import Ranks
    from pytest_fxgraph.ranks.rank_programs import RankPrograms
    from pytest_fxgraph.ranks.world import MeshSizes


class FxEquivalence(CheckDefaults):
    """Runs a model eagerly and as a graph on the same inputs and compares: the fixture `fx_equivalence`."""

    defaults: ClassVar[Mapping[str, object]] = {**DEFAULTS, "frontend": "symbolic"}
    _budget: SearchBudget | None = None  # of the last call

    @property
    def searches(self) -> tuple[SearchReport, ...]:
        """The searches of the last call without a find."""
        return () if self._budget is None else tuple(self._budget.reports)

    @overload
    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        graph: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        ranks: None = None,
        **options: Unpack[EquivalenceOptions],
    ) -> fxcore.GraphModule: ...

    @overload
    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        kwargs: Mapping[str, Any] | None = None,
        ranks: int | RankPrograms,
        **options: Unpack[RankOptions],
    ) -> None: ...

    @shows_options(EquivalenceOptions, **CALL_DEFAULTS)
    def __call__(
        self,
        model: Any,
        inputs: Any,
        *,
        graph: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        ranks: int | RankPrograms | None = None,
        build: Callable[..., Any] | None = None,
        mesh: MeshSizes | None = None,
        batch: bool | str | Sequence[str] = False,
        optimizer: Callable[..., Any] | None = None,
        timeout: float = 60.0,
        **options: Unpack[EquivalenceOptions],
    ) -> fxcore.GraphModule | None:
        """Compare a model with its graph in each mode, and return the graph of the first mode.

        Without `graph` the model is traced, once in each mode; an ExportedProgram, or a graph module of torch.fx, is
        compared with its own graph. `inputs` is a tuple of positional arguments or one tensor; with `samples=n`, n - 1
        further inputs of the same shapes are drawn. `rtol` and `atol` are numbers, or numbers by path. `sqnr`
        (decibels) and `cosine` are thresholds for whole tensors in place of tolerances. `checks` names the compared
        facts, of pytest_fxgraph.choices.CHECKS. With `strict_inputs`, an input that the model's results depend on and
        the graph's results do not is a mismatch. With `search=n`, n inputs of other sizes, values and layouts are tried
        in each mode, within `search_seconds` (60) in all, with NaN and infinities unless `search_values` is "finite";
        the search needs hypothesis. `frontend` is "symbolic", "export", "make_fx" or, for a model that is one graph,
        "dynamo". Model, inputs and random generators are restored.

        With `ranks`, a number of ranks or the result of fx_ranks, the model is compared with a parallel program on real
        processes of this machine, and nothing is returned. `build(rank)`, or `build(rank, mesh)` with the sizes of a
        `mesh`, makes the model of a rank, of the plain model's weights. Every rank gets all inputs; with `batch`, True
        or dimensions of the mesh, its part of the first dimension. `optimizer(parameters)` makes an optimizer for one
        step. `timeout` is for all ranks together, in seconds.

        Raises MismatchError (an AssertionError) if anything differs, EagerError if the model itself fails, InputsError
        (a TypeError), ChoiceError or ValueError for wrong options, VacuousCheckError if no wrong graph could fail,
        unless `allow_vacuous` is True.
        """
        __tracebackhide__ = True
        arguments = arguments_of(inputs, kwargs)
        modes = checked_modes(options.get("modes", self.defaults["modes"]))
        if ranks is not None:
            from pytest_fxgraph.equivalence.rank_check import Ranks

            program = Ranks.of(ranks, build, mesh, batch=batch, optimizer=optimizer, timeout=timeout)
            self._compare_ranks(model, graph, program, arguments, modes, options)
            return None
        if build is not None:
            raise ChoiceError("build= makes the model of a rank; give ranks= as well, the number of ranks")
        checked = self._compare(*self._subjects(model, graph, arguments), arguments, modes, options)
        assert isinstance(checked, fxcore.GraphModule)
        return checked

    def assert_equivalent(
        self, model: Any, graph: Any, inputs: Any, kwargs: Mapping[str, Any] | None, options: EquivalenceOptions
    ) -> None:
        """Compare as a call does. Without `modes`, model and graph stay in their modes; a callable graph is not traced.

        Raises the errors of a call.
        """
        __tracebackhide__ = True
        arguments = arguments_of(inputs, kwargs)
        modes = None if options.get("modes") is None else checked_modes(options["modes"])
        subjects = self._subjects(model, graph, arguments, runs_callables=True)
        self._compare(*subjects, arguments, modes or (None,), options)

    def _compare(
        self, model: Any, given: Any, arguments: Arguments, modes: tuple[str | None, ...], options: EquivalenceOptions
    ) -> Any:
        """Compare in each mode, None for the mode as it is; return the graph of the first mode."""
        __tracebackhide__ = True
        self._budget = None
        check = self.new_check(arguments, options)
        budget = self._budget = self.search_budget(options, len(modes))
        frontend = str(self.chosen(options)["frontend"])
        checked: list[Any] = []
        with globals_kept(), vacuous_examples_rejected(), training_kept(model, given):
            if given is None:
                checked_frontend(frontend)
                model = initialized(model, arguments, check.seed)
            for mode in modes:
                shown = None if mode is None else set_mode(model, mode, tuple(filter(None, modes)))
                with closing(Snapshot(model, buffer_pool=self._buffer_pool)) as guard:
                    graph = given
                    if graph is None:
                        # In the mode, because the flag of functional dropout is written into the graph.
                        graph = self._graph_of(model, arguments, frontend)
                        # A forward may change buffers while it is traced. Versions suffice here: the second run reads
                        # all parameters, finds a write without a version, and then both run again.
                        guard.restore(trust_versions=True)
                    follow_mode(graph, model, shown)
                    check.run(model, GraphCall(graph, graph), shown, guard)
                    search_further(budget, check, model, GraphCall(graph, graph), shown, guard)
                checked.append(graph)
        return checked[0]

    def _compare_ranks(
        self,
        model: Any,
        graph: Any,
        ranks: Ranks,
        arguments: Arguments,
        modes: tuple[str, ...],
        options: EquivalenceOptions,
    ) -> None:
        """Compare the model with a parallel program in each mode."""
        __tracebackhide__ = True
        from pytest_fxgraph.equivalence.rank_check import check_ranks

        given = {**options, "graph": graph}
        for name in ("graph", "frontend", "search", "strict_inputs", "fp64_reference"):
            if given.get(name):
                raise ChoiceError(
                    f"cannot compare ranks= with {name}=: ranks run a program and no graph; leave one out"
                )
        with globals_kept(), vacuous_examples_rejected(), training_kept(model):
            check_ranks(self.new_check(arguments, options), model, ranks, modes)

    def _subjects(
        self, model: Any, graph: Any, arguments: Arguments, *, runs_callables: bool = False
    ) -> tuple[Any, Any]:
        """Return the function to run as the model, and the graph to compare it with, or None for a graph to be traced.

        With `runs_callables`, a module or function given as the graph is not traced. Raises SubjectError for the graph
        module of an exported program without its program.
        """
        model = only_program(model_of(model, self._adapt))
        refuse_lifted(model, arguments)
        if graph is None:
            return called_as_module(model), to_graph_module(model) if is_exported_program(model) else None
        is_callable = isinstance(graph, (nn.Module, FunctionType, MethodType, torch.jit.ScriptFunction))
        if not runs_callables and isinstance(graph, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            raise SubjectError(
                "cannot compare with a scripted module as graph=: fx_equivalence returns the graph, and a scripted "
                "module has none. Compare it by assert_equivalent(model, scripted, inputs), which runs it as it is"
            )
        if not (runs_callables and is_callable and not lifted_inputs(graph, arguments)):
            graph = called_graph(graph, model, arguments, self._adapt)
        return called_as_module(model), graph

    def _graph_of(self, model: Any, arguments: Arguments, frontend: str) -> fxcore.GraphModule:
        """Trace a model, with the inputs if it cannot be traced without inputs; the check itself compares the two.

        A graph module of torch.fx has a graph already, and its train() may rewrite the graph.
        """
        if is_torch_graph_module(model):
            return to_graph_module(model)
        captured = runnable_by(frontend, model, arguments.args, arguments.kwargs, self._adapt)
        if captured is not None:
            return captured
        if self._adapt is not None:
            return to_graph_module(model, self._adapt)
        with other_frontends_named():
            return trace_for_inputs(model, arguments.args, arguments.kwargs, verify=False)
