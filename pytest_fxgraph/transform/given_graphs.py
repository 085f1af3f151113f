"""The graphs that one pass gets, and the judgement on the graphs that the pass returns."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from fxcore.state.snapshot import Snapshot
from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.captures.subjects import is_exported_program
from pytest_fxgraph.choices import Promise
from pytest_fxgraph.equivalence.change_words import words_of
from pytest_fxgraph.equivalence.run import InterpreterCall
from pytest_fxgraph.report.printable import listed
from pytest_fxgraph.transform.graph_checks import GraphFacts
from pytest_fxgraph.transform.passes import Applied
from pytest_fxgraph.transform.program_sets import program_at, programs_in


class GivenGraphs:
    """The graph module, program or set of programs that a pass gets, as it was before the pass."""

    def __init__(self, given: Any, buffer_pool: BufferPool, *, check_modified: bool) -> None:
        """Save the facts of each program; with `check_modified` also tensors, modules and hooks."""
        self._facts: dict[str, GraphFacts] = {}
        self._after: dict[str, GraphFacts] = {}
        self._check_modified = check_modified
        self._snapshots: list[Snapshot] = []
        for name in programs_in(given):
            subject = program_at(given, name)
            self._facts[name] = GraphFacts.of(subject)
            if check_modified and is_exported_program(subject):
                self._snapshots.append(Snapshot.of_values({**subject.state_dict, **subject.constants}.items()))
                subject = subject.graph_module
            if check_modified:
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
            each.release()

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
