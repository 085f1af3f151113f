"""The state of modules before a run: to find out what the run changed, and to restore it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import torch

from fxcore.gc_pause import gc_paused
from pytest_fxgraph.equivalence.state.generators import GeneratorStates, OwnGenerators
from pytest_fxgraph.equivalence.state.leaf_facts import LeafFacts
from pytest_fxgraph.equivalence.state.module_state import ModuleState
from pytest_fxgraph.equivalence.state.saved_modules import AttributeChange, SavedModules
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool, ValueSnapshot


@dataclass(frozen=True)
class ModuleChanges:
    """What a call did to the modules."""

    changed: set[int]  # ids of the tensors whose values changed
    has_uncounted_writes: bool  # one of them was written in a way that torch does not count
    modules_unchanged: bool  # all modules hold the same objects as before
    facts: Mapping[int, list[str]]  # by id of a tensor: what else is another than it was, in words
    leaves_unchanged: bool
    generators: GeneratorStates  # of the modules' own generators that were used
    now: ModuleState  # the same object as state_of(root) if no tensor was replaced


class StateGuard:
    """Saves the state of some modules, tells what a run changed in it, and restores it."""

    def __init__(self, *roots: object, buffer_pool: BufferPool | None = None) -> None:
        self._buffer_pool = buffer_pool or BufferPool()
        self._modules = SavedModules()
        self._generators = OwnGenerators()
        self._states: dict[int, ModuleState] = {}
        self._snapshots: list[ValueSnapshot] = []
        self._leaves = LeafFacts()
        self._known: set[int] = set()  # ids of tensors, the gradients among them
        for root in roots:
            self.include(root)

    def include(self, root: object) -> None:
        """Save the state of one more module; what is known keeps the state that was saved first.

        Raises TypeError if a lazy module has no shapes yet.
        """
        if id(root) in self._states:
            return
        if root is None:  # no module, and no graph
            self._states[id(root)] = ModuleState(root)
            return
        # Thousands of small objects that all stay: the garbage collector would scan them again and again.
        with gc_paused():
            self._include(root)

    def _include(self, root: object) -> None:
        self._states[id(root)] = state = ModuleState(root)
        self._modules.include(state)
        self._generators.include(root, state.modules)
        new: dict[int, torch.Tensor] = {}
        for tensor in [state.tensor for state in state.tensors]:
            if id(tensor) not in self._known:
                self._known.add(id(tensor))
                new[id(tensor)] = tensor
                gradient = self._leaves.include(tensor) if tensor.is_leaf else None
                if gradient is not None and id(gradient) not in self._known:
                    self._known.add(id(gradient))
                    new[id(gradient)] = gradient
        if new:
            self._snapshots.append(ValueSnapshot(new.values(), self._buffer_pool))

    def release(self) -> None:
        """Give the copies' memory back to the pool; the guard cannot be used any more."""
        for snapshot in self._snapshots:
            snapshot.release()
        self._snapshots.clear()

    def state_of(self, root: object) -> ModuleState:
        """Return the tensors that a module held when it was included."""
        return self._states[id(root)]

    def find_changes(self, root: object, *, trust_versions: bool = False) -> ModuleChanges:
        """Find what changed since the modules were included or last restored, and what `root` holds now.

        With `trust_versions`, tensors without a counted write are not read: writes through `.data` are not found.
        """
        changed: set[int] = set()
        for snapshot in self._snapshots:
            changed |= snapshot.changed_by_version() if trust_versions else snapshot.changed()
        uncounted = any(key in snapshot and not snapshot.has_new_version(key)
                     for key in changed for snapshot in self._snapshots)  # fmt: skip
        modules_unchanged = self._modules.are_unchanged()
        has_new_data = any(snapshot.has_new_data() for snapshot in self._snapshots)
        leaves_unchanged = self._leaves.are_unchanged()
        has_facts = has_new_data or not leaves_unchanged or not self._leaves.gradients.isdisjoint(changed)
        facts = self.changed_facts(changed) if has_facts else {}
        now = self._states[id(root)] if modules_unchanged and not has_new_data else ModuleState(root)
        return ModuleChanges(
            changed, uncounted, modules_unchanged, facts, leaves_unchanged, self._generators.changed(), now
        )

    def changed(self) -> set[int]:
        """Return the ids of the tensors whose values changed; reads all of them."""
        return {key for snapshot in self._snapshots for key in snapshot.changed()}

    def changed_attributes(self) -> Iterator[AttributeChange]:
        """Yield what changed of the attributes of modules and of what they lead to."""
        return self._modules.changed_attributes()

    def changed_facts(self, changed: set[int]) -> dict[int, list[str]]:
        """Return by tensor what else is another than it was, in words: strides, gradient, hooks, `requires_grad`.

        `changed` are the ids of the tensors whose values changed.
        """
        found: dict[int, list[str]] = {}
        named = chain.from_iterable(snapshot.changed_strides() for snapshot in self._snapshots)
        for key, words in chain(named, self._leaves.changes(changed)):
            if words not in found.setdefault(key, []):
                found[key].append(words)
        return found

    def restore(self, changes: ModuleChanges | None = None, *, trust_versions: bool = False) -> None:
        """Restore values, gradients, attributes, training flags and generators.

        `changes`, as find_changes() returned them just before, saves searching once more.
        """
        if not (self._modules.are_unchanged() if changes is None else changes.modules_unchanged):
            self._modules.restore()
        for snapshot in self._snapshots:
            if changes is not None:
                snapshot.restore(changes.changed)
            else:
                snapshot.restore(snapshot.changed_by_version() if trust_versions else snapshot.changed())
        if not (self._leaves.are_unchanged() if changes is None else changes.leaves_unchanged):
            self._leaves.restore()
        self._generators.restore()
