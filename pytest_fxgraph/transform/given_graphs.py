"""The graphs that one pass gets and the user's own model, and the judgement on them after the pass."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import fxcore
from fxcore.state.snapshot import Snapshot
from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.arguments import Promise
from pytest_fxgraph.captures.subjects import is_exported_program, is_torch_graph_module
from pytest_fxgraph.equivalence.change_words import words_of
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.report.printable import listed
from pytest_fxgraph.transform.graph_checks import GraphFacts, facts_of
from pytest_fxgraph.transform.passes import Applied
from pytest_fxgraph.transform.program_sets import is_program_set, program_at, programs_in


class GivenGraphs:
    """The graph module, program or set of programs that a pass gets, as it was before the pass."""

    def __init__(self, given: Any, buffer_pool: BufferPool, *, check_modified: bool) -> None:
        """Save the facts of each program; with `check_modified` also tensors, modules and hooks."""
        self._facts = facts_of(given)
        self._after: dict[str, GraphFacts] = {}
        self._check_modified = check_modified
        self._snapshots: list[Snapshot] = []
        for name in self._facts if check_modified else ():
            subject = program_at(given, name)
            if is_exported_program(subject):
                self._snapshots.append(Snapshot.of_values({**subject.state_dict, **subject.constants}.items()))
                subject = subject.graph_module
            self._snapshots.append(Snapshot(subject, buffer_pool=buffer_pool))

    def check(self, applied: Applied, name: str, *, keeps_meta: tuple[str, ...] | bool) -> None:
        """Raise AssertionError, naming the pass, for a malformed result, and for a wrong claim to change nothing."""
        __tracebackhide__ = True
        # A module of the user's own may name its inputs as it likes.
        keeps_inputs = applied.has_own_graph or isinstance(applied.call, InterpreterCall)
        names = programs_in(applied.made)
        for program, before in self._facts.items():
            if program in names:
                made = program_at(applied.made, program)
                self._after[program] = before.check(made, name, keeps_meta=keeps_meta, keeps_inputs=keeps_inputs)
        if self._check_modified and applied.modified is False:
            self._check_unmodified(set(names), name)
        for each in self._snapshots:
            each.close()

    def _check_unmodified(self, names: set[str], name: str) -> None:
        __tracebackhide__ = True
        found = [change for each in self._snapshots for change in each.changes()]
        # The metadata of a graph module does not count, as the metadata of nodes does not.
        changes = words_of(change for change in found if not re.match(r"(.*\.)?meta\b", change.path))
        is_changed = names != self._facts.keys()
        is_changed |= any(self._facts[program].changed(after) for program, after in self._after.items())
        if changes or is_changed:
            told = f": {listed(changes, 3, '; ')}" if changes else ""
            raise AssertionError(
                f"{name} returned modified=False, and yet it changed the graph{told}; return modified=True, or "
                "check a pass of others with check_modified=False"
            )

    def check_promises(self, program: str, name: str, may_change: Collection[Promise]) -> None:
        """Raise AssertionError, naming the pass, for a lost hook, and for another interface of a program."""
        __tracebackhide__ = True
        if program in self._after:
            self._facts[program].check_promises(self._after[program], name, may_change)


class SubjectSnapshot:
    """The user's own model or graph, and the inputs of the check, before a pass.

    The pass gets a copy of the graph, or a graph with the same tensors.
    """

    def __init__(self, model: Any, called: Iterable[Any], inputs: Iterable[Arguments], *, inplace: bool) -> None:
        """Look at a model, its inputs, and the modules that are run for it; with `inplace`, at their classes alone."""
        is_given_as_graph = is_exported_program(model) or is_program_set(model) or is_torch_graph_module(model)
        self._model = model
        self._facts: dict[str, GraphFacts] = {}
        if not inplace and (is_given_as_graph or isinstance(model, fxcore.GraphModule)):
            self._facts = facts_of(model)
        self._inputs = [Snapshot.of_values(each.named()) for each in inputs]
        self._snapshot = Snapshot()
        for module in called:
            if not inplace:
                self._snapshot.include(module)
            self._snapshot.include_classes(module)

    def restore(self) -> None:
        """Put inputs, tensors, settings and the functions of classes back."""
        for each in (*self._inputs, self._snapshot):
            each.restore()

    def check(self, name: str) -> None:
        """Raise AssertionError, naming the pass, if it changed anything; tensors and settings are put back."""
        __tracebackhide__ = True
        for inputs in self._inputs:
            changes = words_of(inputs.changes())
            if changes:
                inputs.restore()
                raise AssertionError(
                    f"{name}, while it ran, changed the inputs of the check: {listed(changes, 3, '; ')}; they were put "
                    "back. A pass that runs the graph on an example must run it on a copy (x.clone())"
                )
        changes = words_of(self._snapshot.changes())
        if changes:
            self._snapshot.restore()
            raise AssertionError(
                f"{name} changed the model that it was given: {listed(changes, 3, '; ')}. "
                "Copy what is to be changed (copy.deepcopy), or check it with inplace=True if that is meant"
            )
        for program, facts in self._facts.items():
            if facts.changed(GraphFacts.of(program_at(self._model, program))):
                raise AssertionError(
                    f"{name} was given a copy and changed the graph that the test handed over; change the argument of "
                    "the pass, or check it with inplace=True if that is meant"
                )
