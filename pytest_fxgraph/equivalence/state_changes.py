"""What a run changed in the state of its module, and whether the other run changed the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state.module_state import ModuleState, StateTensor
from pytest_fxgraph.equivalence.state.storage import has_all_memory


@dataclass(frozen=True)
class StateAfter:
    """What one run did to the state of its module."""

    known: frozenset[str]  # the names of all state tensors, changed or not
    changed: Mapping[str, StateTensor]  # by name, with copies of the values after the call


class StateNames:
    """Gives a tensor one name in both runs: a graph shares most tensors with its model, but not always their names."""

    def __init__(self, of_model: ModuleState) -> None:
        self._by_identity: dict[int, str] = {}
        for state in of_model.tensors:
            self._by_identity.setdefault(id(state.tensor), state.name)

    def name(self, state: StateTensor) -> str:
        """Return the name of a tensor in the model; for one that the model does not hold, its own name."""
        return self._by_identity.get(id(state.tensor), state.name)


def state_after(before: ModuleState, after_call: ModuleState, changed_ids: set[int], names: StateNames) -> StateAfter:
    """Return what a call changed: values written in place, and parameters and buffers that were replaced.

    `changed_ids` are the ids of tensors of `before` whose values changed.
    """
    known = frozenset(names.name(state) for state in before.tensors)
    changed: dict[str, StateTensor] = {}
    if after_call is before and not changed_ids:
        return StateAfter(known, changed)
    now = {state.name: state for state in after_call.tensors}
    for state in before.tensors:
        name, after = names.name(state), now.get(state.name)
        if name in changed or after is None:
            continue
        was_replaced = after.tensor is not state.tensor and state.kind != "attribute"
        if was_replaced or id(state.tensor) in changed_ids:
            kept = after.tensor.detach().clone() if has_all_memory(after.tensor) else torch.empty(0)
            changed[name] = StateTensor(name, state.kind, kept)
    return StateAfter(known, changed)


def compare_state(expected: StateAfter, obtained: StateAfter, comparison: OutputComparison) -> Iterator[Mismatch]:
    """Yield a mismatch for each state tensor that only one run changed, or that both changed differently."""
    comparison = comparison.of_values()
    for name, state in expected.changed.items():
        counterpart = obtained.changed.get(name)
        if counterpart is not None:
            yield from _as_state(comparison.compare_tensors(state.tensor, counterpart.tensor, state.label))
        elif name in obtained.known:
            yield Mismatch("state", state.label, "was changed by eager, not by the graph")
        else:
            yield Mismatch("state", state.label, "was changed by eager, and the graph has no such state")
    for name, state in obtained.changed.items():
        if name not in expected.changed:
            yield Mismatch("state", state.label, "was changed by the graph, not by eager")


def _as_state(mismatches: Iterator[Mismatch]) -> Iterator[Mismatch]:
    for mismatch in mismatches:
        is_value = mismatch.kind == "value"
        description = "has other values after the graph's call" if is_value else mismatch.description
        yield Mismatch("state", mismatch.where, description, mismatch.statistics)
