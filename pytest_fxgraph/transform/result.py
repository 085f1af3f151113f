"""The graphs before and after a transform, and the assertions of a test about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

import fxcore
from pytest_fxgraph.captures.subjects import to_graph_module
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.equivalence.search.search import SearchReport
from pytest_fxgraph.errors import SubjectError
from pytest_fxgraph.graph_difference import Difference
from pytest_fxgraph.operator_patterns import (
    OperatorCall,
    OwnName,
    as_targets,
    matches,
    name_of_target,
    operator_calls,
    refuse_unspoken,
    validate_target,
)
from pytest_fxgraph.transform.graph_checks import facts_of
from pytest_fxgraph.transform.program_sets import program_at, programs_in
from pytest_fxgraph.vacuity import refuse_nothing_asked

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TransformResult:
    """The result of `fx_transform`."""

    before: Any  # as it was traced, or handed over: a graph module or an exported program
    after: fxcore.GraphModule | torch.fx.GraphModule
    passes: tuple[str, ...]  # the names of the transforms, in the order they ran
    own_name: OwnName | None = field(default=None, repr=False, compare=False)  # asked first for names of functions
    searches: tuple[SearchReport, ...] = field(default=(), repr=False, compare=False)  # the reports of the searches
    _is_rebuilt: bool = field(default=True, repr=False, compare=False)  # `after` is another object than was handed over

    @cached_property
    def is_changed(self) -> bool:
        """Whether the transforms rebuilt the graph, or changed its nodes, state or metadata."""
        if self._is_rebuilt or programs_in(self.before) != programs_in(self.after):
            return True
        before, after = facts_of(self.before), facts_of(self.after)
        return any(
            before[name].changed(after[name])
            or before[name].meta != after[name].meta
            or _has_other_meta(program_at(self.before, name), program_at(self.after, name))
            for name in before
        )

    @cached_property
    def difference(self) -> Difference:
        """Return the changes of the transform at level `structure`."""
        before, after = (documents_of(side, self.own_name) for side in (self.before, self.after))
        if len(before) != 1 or before.keys() != after.keys():
            raise SubjectError(
                f"there is no one difference between {len(before)} programs and {len(after)}; compare them one by one: "
                "diff_graphs(result.before.exported_program(name), result.after.exported_program(name))"
            )
        documents = *before.values(), *after.values()
        return Difference.between(compare_documents(*documents), *documents)

    @cached_property
    def _calls(self) -> tuple[list[OperatorCall], list[OperatorCall]]:
        before, after = (
            [call for graph in _graphs_of(side) for call in operator_calls(graph, own_name=self.own_name)]
            for side in (self.before, self.after)
        )
        return before, after

    def assert_ops(self, *, added: Any = (), removed: Any = (), unchanged: Any = ()) -> None:
        """Check that the graph now has more calls of `added`, fewer of `removed`, as many of `unchanged`.

        Each is a target, several, or a mapping from target to how many; `unchanged=True` means all others. Raises
        AssertionError if not, TargetError (a ValueError) for a target that can match no operator, VacuousCheckError
        without a claim.
        """
        asked = [*as_targets(added), *as_targets(removed), *as_targets(unchanged)]
        refuse_nothing_asked("assert_ops", asked, "say added=, removed= or unchanged=")
        problems = [*self._problems("added", added, 1), *self._problems("removed", removed, -1)]
        if unchanged is True:
            problems += self._changed_elsewhere([*as_targets(added), *as_targets(removed)])
        else:
            problems += self._problems("unchanged", unchanged, 0)
        if problems:
            raise AssertionError(f"the transform's operators are not as claimed: {'; '.join(problems)}")

    def assert_state_dict(self, *, kept: Any = (), dropped: Any = ()) -> None:
        """Check that the state `kept` is still there with its shape and dtype, and the state `dropped` is gone.

        Each is a name or glob, or several; `kept=True` means everything but `dropped`. Raises AssertionError if not, or
        if a name matches no state, VacuousCheckError without a claim about any state.
        """
        before, after = (
            {name: tensor for graph in _graphs_of(side) for name, tensor in graph.state_dict().items()}
            for side in (self.before, self.after)
        )
        asked = [*as_targets(dropped), *as_targets(kept)]
        refuse_nothing_asked("assert_state_dict", asked, "name state of the model with kept= or dropped=")
        gone = _named(before, dropped)
        problems = [f"{name!r} should be dropped and is still there" for name in gone if name in after]
        for name in [name for name in before if name not in gone] if kept is True else _named(before, kept):
            if name not in after:
                problems.append(f"{name!r} should be kept and is gone")
            elif (after[name].shape, after[name].dtype) != (before[name].shape, before[name].dtype):
                problems.append(f"{name!r} was {_kind(before[name])} and is {_kind(after[name])} now")
        if problems:
            raise AssertionError(f"the transform's state_dict is not as claimed: {'; '.join(problems)}")

    def _problems(self, claim: str, targets: Any, sign: int) -> list[str]:
        found = []
        for target in as_targets(targets):
            before, after = self._counts(target)
            counted = f"and there were {before}, now {after}"
            change = (after - before) * (sign or 1)
            if isinstance(targets, Mapping) and sign:
                if change != targets[target]:
                    found.append(f"{name_of_target(target)} should be {claim} {targets[target]} times, {counted}")
            elif (change <= 0) if sign else (change != 0):
                found.append(f"{name_of_target(target)} should be {claim}, {counted}")
        return found

    def _counts(self, target: Any) -> tuple[int, int]:
        """Count the calls in both graphs; the target is valid if one of them has it."""
        counts = [sum(matches(target, call) for call in calls) for calls in self._calls]
        if not any(counts):
            both = [call for calls in self._calls for call in calls]
            validate_target(target, both, self.own_name)
            refuse_unspoken([target], both)
        return counts[0], counts[1]

    def _changed_elsewhere(self, named: list[Any]) -> list[str]:
        before, after = (
            Counter(call.names[0] for call in calls if not any(matches(target, call) for target in named))
            for calls in self._calls
        )
        return [
            f"{name} should be unchanged, and there were {before[name]}, now {after[name]}"
            for name in sorted({*before, *after})
            if before[name] != after[name]
        ]


def _has_other_meta(before: Any, after: Any) -> bool:
    """Return whether a node of two equal graphs has another object as metadata. Copies of a graph copy containers."""
    pairs = zip(before.graph.nodes, after.graph.nodes, strict=True)
    values = [(node.meta[entry], other.meta[entry]) for node, other in pairs for entry in node.meta]
    others = [pair for pair in values if pair[0] is not pair[1]]
    try:
        return not all(isinstance(value, (dict, list, set)) and value == other for value, other in others)
    except Exception:  # tensors, or objects of the user's, that == cannot compare
        return True


def documents_of(subject: Any, own_name: OwnName | None = None) -> dict[str, GraphDocument]:
    """Return the document of each program by name; a subject without named programs has one, under ""."""
    names = programs_in(subject)
    return {
        name: build_document(graph, own_name=own_name) for name, graph in zip(names, _graphs_of(subject), strict=True)
    }


def _graphs_of(subject: Any) -> list[fxcore.GraphModule]:
    return [to_graph_module(program_at(subject, name)) for name in programs_in(subject)]


def _named(state: Mapping[str, Any], patterns: Any) -> list[str]:
    names: list[str] = []
    for pattern in as_targets(patterns):
        found = [name for name in state if fnmatchcase(name, pattern)]
        if not found:
            raise AssertionError(
                f"{pattern!r} names nothing in the state_dict before the transform: {', '.join(state) or 'it is empty'}"
            )
        names += found
    return names


def _kind(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
