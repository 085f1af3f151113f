"""What a lane changed in the state of its module, and whether the other lane changed the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from pytest_fxgraph.equivalence.aliasing import has_all_memory
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.outputs import OutputComparison
from pytest_fxgraph.equivalence.state.module_state import ModuleState, StateTensor


@dataclass(frozen=True)
class StateAfter:
    """The state of one lane's module after the call: what was there before, and what is other now."""

    known: frozenset[str]  # every name, whether changed or not
    changed: Mapping[str, StateTensor]  # holding a copy of the value after the call


class StateNames:
    """Names one tensor alike in both lanes: a graph mostly shares its tensors with the model, not always the names."""

    def __init__(self, of_model: ModuleState) -> None:
        self._by_identity: dict[int, str] = {}
        for state in of_model.tensors:
            self._by_identity.setdefault(id(state.tensor), state.name)

    def name(self, state: StateTensor) -> str:
        """Give the model's name of a tensor that the model has, else the name it has where it was found."""
        return self._by_identity.get(id(state.tensor), state.name)


def state_after(before: ModuleState, after_call: ModuleState, changed_ids: set[int], names: StateNames) -> StateAfter:
    """Tell what a call changed: values in place, and parameters and buffers that became other tensors."""
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
    """Yield a mismatch for everything that only one lane changed, or that both changed to other values."""
    for name, state in expected.changed.items():
        counterpart = obtained.changed.get(name)
        if counterpart is not None:
            yield from _as_state(comparison.compare_tensors(state.tensor, counterpart.tensor, state.words))
        elif name in obtained.known:
            yield Mismatch("state", state.words, "was changed by eager, not by the graph")
        else:
            yield Mismatch("state", state.words, "was changed by eager, and the graph has no such state")
    for name, state in obtained.changed.items():
        if name not in expected.changed:
            yield Mismatch("state", state.words, "was changed by the graph, not by eager")


def _as_state(mismatches: Iterator[Mismatch]) -> Iterator[Mismatch]:
    for mismatch in mismatches:
        words = "has other values after the graph's call" if mismatch.kind == "value" else mismatch.words
        yield Mismatch("state", mismatch.where, words, mismatch.statistics)
