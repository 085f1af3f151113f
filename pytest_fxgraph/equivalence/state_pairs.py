"""Pairs of the model's state with the state of a copy that a graph holds under other paths.

A graph that shares its tensors with the model needs no pairs, because one tensor has one name. Tensors of a copy are
paired by path. A transform may move a copy's tensors to other paths. These are paired with tensors that hold the same
bits before the run. Bits alone do not decide, because biases of zeros are all alike. Among alike tensors the pairs are
chosen for which both runs agree: in gradients, in changes and in the outputs that share the tensor's memory. Tensors
alike in all of these can be exchanged without any effect on the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import torch

from fxcore.state.held_state import HeldState, StateTensor
from fxcore.state.storage import has_values, is_plain
from pytest_fxgraph.equivalence.aliasing import Sharing
from pytest_fxgraph.equivalence.gradients import rules_of_gradients
from pytest_fxgraph.equivalence.outputs import EXACTLY, OutputComparison
from pytest_fxgraph.equivalence.run import RunResult, SecondOutput
from pytest_fxgraph.equivalence.state_changes import StateAfter, StateNames
from pytest_fxgraph.equivalence.tolerance import LOOSE, ToleranceRule, largest_magnitude
from pytest_fxgraph.grouping import grouped

_PREFIX = 8  # elements that tell most tensors of one shape apart, without reading all


def paired_paths(
    expected: RunResult,
    obtained: RunResult,
    states: tuple[HeldState, HeldState],
    names: StateNames,
    comparison: OutputComparison,
    inputs: Collection[str],
) -> dict[str, str]:
    """Map paths of the graph's state to names of the model's state; `states` are those of model and graph.

    Only state whose path the other run does not have is paired. Model and graph must hold their values from before
    the runs. `inputs` are the paths of inputs.
    """
    of_model, of_graph = states
    paths = _paths_by_tensor(of_graph, names)
    pairs = _tied_paths(paths, expected.state.known)
    missing = {
        names.name(state): state.tensor for state in of_model.tensors if names.name(state) not in obtained.state.known
    }
    if not _takes_part(expected, missing):
        return pairs
    unknown = {
        paths_of[0]: state.tensor
        for state, paths_of in paths.values()
        if not any(path in expected.state.known for path in paths_of)
    }
    alike = _alike(unknown, missing)
    rules = rules_of_gradients(expected.gradients or {}, comparison.rule, inputs)
    agreement = _Agreement(expected, obtained, comparison.of_values(), rules)
    chosen: dict[str, str] = {}
    # The second question finds pairs that differ by rounding. A tensor without a partner that agrees gets one of the
    # others, so that the mismatch names both.
    for agree in (agreement, agreement.loosely(), lambda path, name: True):
        taken = set(chosen.values())
        left = {path: set(names_of) - taken for path, names_of in alike.items() if path not in chosen}
        chosen |= _matching(
            {path: [name for name in alike[path] if name in free and agree(path, name)] for path, free in left.items()}
        )
    for _, paths_of in paths.values():
        if paths_of[0] in chosen:
            pairs |= dict.fromkeys(paths_of, chosen[paths_of[0]])
    return pairs


def with_names(run: RunResult, pairs: Mapping[str, str]) -> RunResult:
    """Return a run of the graph with the names of the model for paired state."""

    def renamed(held: Mapping[str, Any]) -> dict[str, Any]:
        return {pairs.get(name, name): value for name, value in held.items()}

    def after(state: StateAfter) -> StateAfter:
        known = frozenset(pairs.get(name, name) for name in state.known)
        return StateAfter(known, renamed(state.changed), renamed(state.facts))

    def of_later_call(output: SecondOutput | None) -> SecondOutput | None:
        if output is None:
            return None
        return dataclasses.replace(output, state=output.state and after(output.state), next=of_later_call(output.next))

    return dataclasses.replace(
        run,
        state=after(run.state),
        gradients=None if run.gradients is None else renamed(run.gradients),
        sharing={
            path: frozenset((pairs.get(name, name), distance) for name, distance in shared)
            for path, shared in run.sharing.items()
        },
        pairs=pairs,
        second_output=of_later_call(run.second_output),
    )


def _paths_by_tensor(of_graph: HeldState, names: StateNames) -> dict[int, tuple[StateTensor, list[str]]]:
    """Group the paths of tensors that the model does not hold, because a tied tensor has several paths."""
    found: dict[int, tuple[StateTensor, list[str]]] = {}
    for state in of_graph.tensors:
        if not names.holds(state):
            found.setdefault(id(state.tensor), (state, []))[1].append(state.name)
    return found


def _tied_paths(paths: Mapping[int, tuple[StateTensor, list[str]]], known: frozenset[str]) -> dict[str, str]:
    """Map the further paths of a tied tensor to the path that the model knows."""
    pairs: dict[str, str] = {}
    for _, paths_of in paths.values():
        name = next((path for path in paths_of if path in known), None)
        if name is not None:
            pairs |= {path: name for path in paths_of if path not in known}
    return pairs


def _takes_part(expected: RunResult, missing: Mapping[str, torch.Tensor]) -> bool:
    """Return whether eager's run changed, differentiated or returned one of some tensors."""
    gradients = expected.gradients or {}
    shared = {name for each in expected.sharing.values() for name, _ in each}
    return any(name in expected.state.changed or gradients.get(name) is not None or name in shared for name in missing)


def _alike(unknown: Mapping[str, torch.Tensor], missing: Mapping[str, torch.Tensor]) -> dict[str, list[str]]:
    """Map each path to the names of the tensors with the same bits."""
    by_prefix = grouped(missing, lambda name: _prefix(missing[name]))
    return {
        path: [
            name
            for name in by_prefix.get(_prefix(tensor), ())
            if not any(EXACTLY.compare_tensors(missing[name], tensor, ""))
        ]
        for path, tensor in unknown.items()
    }


def _prefix(tensor: torch.Tensor) -> Hashable:
    facts = tensor.dtype, tensor.device, tensor.layout, () if tensor.is_nested else tuple(tensor.shape)
    if not has_values(tensor) or not is_plain(tensor.detach()):
        return facts
    return *facts, str(tensor.detach().flatten()[:_PREFIX].tolist())  # as text NaN equals NaN, and -0.0 is not 0.0


@dataclasses.dataclass(frozen=True)
class _Agreement:
    """The question whether both runs did the same with a tensor of the graph and a tensor of the model."""

    expected: RunResult
    obtained: RunResult
    comparison: OutputComparison
    rules: Mapping[str, ToleranceRule]  # of gradients

    def loosely(self) -> _Agreement:
        """Return the question with tolerances that no rounding exceeds."""
        largest = largest_magnitude(each for each in (self.expected.gradients or {}).values() if each is not None)
        rule = ToleranceRule(LOOSE, LOOSE * max(1.0, largest))
        return dataclasses.replace(
            self, comparison=dataclasses.replace(self.comparison, rule=rule), rules=dict.fromkeys(self.rules, rule)
        )

    def __call__(self, path: str, name: str) -> bool:
        expected, obtained = self.expected, self.obtained
        if _outputs_with(expected.sharing, name) != _outputs_with(obtained.sharing, path):
            return False
        seconds = [run.second_output.state if run.second_output else None for run in (expected, obtained)]
        for of_eager, of_graph in ((expected.state, obtained.state), seconds):
            if of_eager is not None and of_graph is not None:
                before, after = of_eager.changed.get(name), of_graph.changed.get(path)
                if not _are_same(before and before.tensor, after and after.tensor, self.comparison):
                    return False
        gradients = (expected.gradients or {}).get(name), (obtained.gradients or {}).get(path)
        rule = self.rules.get(f"gradient of {name}", self.comparison.rule)
        return _are_same(*gradients, dataclasses.replace(self.comparison, rule=rule))


def _are_same(expected: torch.Tensor | None, obtained: torch.Tensor | None, comparison: OutputComparison) -> bool:
    if expected is None or obtained is None:
        return expected is obtained
    return all(mismatch.kind == "stride" for mismatch in comparison.compare_tensors(expected, obtained, ""))


def _outputs_with(sharing: Sharing, name: str) -> set[str]:
    return {path for path, shared in sharing.items() if any(other == name for other, _ in shared)}


def _matching(candidates: Mapping[str, list[str]]) -> dict[str, str]:
    """Give each path a name of its candidates, no name twice, to as many paths as possible."""
    path_of: dict[str, str] = {}

    def finds(path: str, tried: set[str]) -> bool:
        for name in candidates[path]:
            if name not in tried:
                tried.add(name)
                if name not in path_of or finds(path_of[name], tried):
                    path_of[name] = path
                    return True
        return False

    for path in candidates:
        finds(path, set())
    return {path: name for name, path in path_of.items()}
