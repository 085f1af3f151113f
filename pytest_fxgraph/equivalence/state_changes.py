"""The changes of a run in the state of its module, compared with the changes of the other run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from fxcore.state.held_state import HeldState, StateTensor
from fxcore.state.snapshot import Findings, Snapshot
from fxcore.state.storage import has_all_memory
from pytest_fxgraph.equivalence.change_words import fact_words
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.outputs import OutputComparison


@dataclass(frozen=True)
class StateAfter:
    """The changes of one run in the state of its module."""

    known: frozenset[str]  # the names of all state tensors, changed or not
    changed: Mapping[str, StateTensor]  # by name, with copies of the values after the call
    facts: Mapping[str, tuple[str, list[str]]]  # by name: the label, and the words for other changes


class StateNames:
    """Names of tensors for both runs, because a graph shares tensors with its model, but not always names."""

    def __init__(self, of_model: HeldState, pairs: Mapping[str, str] | None = None) -> None:
        """Name the tensors of a model, and by `pairs` of path and name, tensors that a graph holds alone.

        Raises TypeError if a lazy module has no shapes yet.
        """
        self._pairs = pairs or {}
        for name, module in of_model.lazy:
            raise TypeError(
                f"cannot compare eager and graph: {name!r} of a {type(module).__name__} has no shape before the first "
                "call, and that call would change the model; call the model once before the check"
            )
        self._by_identity: dict[int, str] = {}
        for state in of_model.tensors:
            self._by_identity.setdefault(id(state.tensor), state.name)
        self._known: dict[int, tuple[HeldState, frozenset[str]]] = {}

    def name(self, state: StateTensor) -> str:
        """Return the name of a tensor in the model; the own name of a tensor that the model does not hold."""
        return self._by_identity.get(id(state.tensor)) or self._pairs.get(state.name, state.name)

    def holds(self, state: StateTensor) -> bool:
        """Return whether the model holds a tensor."""
        return id(state.tensor) in self._by_identity

    def known(self, held: HeldState) -> frozenset[str]:
        """Return the names of all tensors of a state. All runs of a module ask for the names of one state."""
        if id(held) not in self._known:
            self._known[id(held)] = held, frozenset(map(self.name, held.tensors))
        return self._known[id(held)][1]


def state_after(snapshot: Snapshot, root: object, findings: Findings, now: HeldState, names: StateNames) -> StateAfter:
    """Return the changes of a call: values written in place, replaced parameters and buffers, facts of tensors."""
    before = snapshot.state_of(root)
    known = names.known(before)
    changed: dict[str, StateTensor] = {}
    found = snapshot.facts(findings)
    facts = {
        names.name(state): (state.label, list(dict.fromkeys(map(fact_words, found[id(state.tensor)]))))
        for state in (before.tensors if found else ())
        if id(state.tensor) in found
    }
    if now is before and not findings.changed:
        return StateAfter(known, changed, facts)
    tensors = {state.name: state.tensor for state in now.tensors}
    for state in before.tensors:
        name, tensor = names.name(state), tensors.get(state.name)
        if name in changed or tensor is None:
            continue
        was_replaced = tensor is not state.tensor and state.kind != "attribute" and not state.is_nested
        if was_replaced or id(state.tensor) in findings.changed:
            copied = tensor.detach().clone() if has_all_memory(tensor) else torch.empty(0)
            changed[name] = state._replace(name=name, tensor=copied)
    return StateAfter(known, changed, facts)


def compare_state(
    expected: StateAfter, obtained: StateAfter, comparison: OutputComparison, *, suffix: str = ""
) -> Iterator[Mismatch]:
    """Yield a mismatch for each state tensor that only one run changed, or that both changed differently.

    `suffix` ends the names of tensors in messages.
    """
    comparison = comparison.of_values()
    # A graph that shares nothing with its model has other names for nested tensors. A second call compares them.
    has_unknown = any(state.is_nested and name not in obtained.known for name, state in expected.changed.items())
    for name, state in expected.changed.items():
        counterpart, where = obtained.changed.get(name), f"{state.label}{suffix}"
        if counterpart is not None:
            yield from _as_state(comparison.compare_tensors(state.tensor, counterpart.tensor, where))
        elif name in obtained.known:
            yield Mismatch("state", where, "was changed by eager, not by the graph")
        elif not state.is_nested:
            yield Mismatch("state", where, "was changed by eager, and the graph has no such state")
    for name, state in obtained.changed.items():
        if name not in expected.changed and not (has_unknown and name not in expected.known):
            yield Mismatch("state", f"{state.label}{suffix}", "was changed by the graph, not by eager")
    for name in {**expected.facts, **obtained.facts}:
        if name in expected.known and name in obtained.known:
            yield from _compare_facts(name, expected, obtained)


def _compare_facts(name: str, expected: StateAfter, obtained: StateAfter) -> Iterator[Mismatch]:
    (label, in_eager), (other, in_graph) = (after.facts.get(name, ("", [])) for after in (expected, obtained))
    for own, others, call, other_call in (
        (in_graph, in_eager, "the graph's call", "eager's"),
        (in_eager, in_graph, "eager's call", "the graph's"),
    ):
        for words in own:
            if words not in others:
                yield Mismatch("state", label or other, f"{words}, after {call}, not after {other_call}")


def _as_state(mismatches: Iterator[Mismatch]) -> Iterator[Mismatch]:
    for mismatch in mismatches:
        is_value = mismatch.kind == "value"
        description = "has other values after the graph's call" if is_value else mismatch.description
        yield Mismatch("state", mismatch.where, description, mismatch.statistics)
