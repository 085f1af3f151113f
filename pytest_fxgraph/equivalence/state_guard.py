"""What modules are before a lane runs, and putting them back afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fxcore.collector import collector_paused
from pytest_fxgraph.equivalence.module_state import ModuleState, modules_by_path
from pytest_fxgraph.equivalence.own_generators import Moved, OwnGenerators
from pytest_fxgraph.equivalence.saved_modules import SavedModules
from pytest_fxgraph.equivalence.spare_memory import SpareMemory
from pytest_fxgraph.equivalence.value_snapshot import ValueSnapshot


@dataclass(frozen=True)
class Findings:
    """What a call did to the modules."""

    changed: set[int]  # ids of tensors that hold other values
    changed_unseen: bool  # one of them was written in a way that torch does not count
    is_intact: bool  # all modules hold the very objects that they held
    generators: Moved  # those of the modules' own that were drawn from
    now: ModuleState  # the very state_of(root) if nothing was replaced


class StateGuard:
    """Keeps the state of some modules, tells what a lane changed in it, and restores it."""

    def __init__(self, *roots: object, spare: SpareMemory | None = None) -> None:
        self._spare = spare or SpareMemory()
        self._modules = SavedModules()
        self._generators = OwnGenerators()
        self._states: dict[int, ModuleState] = {}
        self._snapshots: list[ValueSnapshot] = []
        self._leaves: dict[int, _SavedLeaf] = {}
        self._known: set[int] = set()  # ids of tensors, the gradients among them
        for root in roots:
            self.include(root)

    def include(self, root: object) -> None:
        """Keep the state of one more module; what is known already stays as it was first seen."""
        if id(root) in self._states:
            return
        # Thousands of small objects that all stay: the collector would look through them again and again.
        with collector_paused():
            self._include(root)

    def _include(self, root: object) -> None:
        self._states[id(root)] = state = ModuleState(root)
        self._modules.include(module for _, module in modules_by_path(root))
        self._generators.include(root)
        new: dict[int, torch.Tensor] = {}
        for _, _, tensor in state.tensors:
            if id(tensor) not in self._known:
                self._known.add(id(tensor))
                new[id(tensor)] = tensor
                if tensor.is_leaf:
                    self._leaves[id(tensor)] = leaf = _SavedLeaf(tensor)
                    if leaf.grad is not None and id(leaf.grad) not in self._known:
                        self._known.add(id(leaf.grad))
                        new[id(leaf.grad)] = leaf.grad
        if new:
            self._snapshots.append(ValueSnapshot(new.values(), self._spare))

    def release(self) -> None:
        """Forget all values, so that another guard can use their memory."""
        for snapshot in self._snapshots:
            snapshot.release()
        self._snapshots.clear()

    def state_of(self, root: object) -> ModuleState:
        """Give the tensors of a module as they were when the guard came to know it."""
        return self._states[id(root)]

    def look(self, root: object, *, trust_versions: bool = False) -> Findings:
        """Look what changed since the guard was made or last restored, and what `root` holds now.

        Trusting versions, what torch saw no write to is not read: writes through `.data` or numpy stay unseen.
        """
        changed: set[int] = set()
        for snapshot in self._snapshots:
            changed |= snapshot.changed_by_version() if trust_versions else snapshot.changed()
        unseen = any(key in snapshot and not snapshot.has_new_version(key)
                     for key in changed for snapshot in self._snapshots)  # fmt: skip
        is_intact = self._modules.are_intact()
        holds_the_same = is_intact and not any(snapshot.has_moved() for snapshot in self._snapshots)
        now = self._states[id(root)] if holds_the_same else ModuleState(root)
        return Findings(changed, unseen, is_intact, self._generators.moved(), now)

    def changed(self) -> set[int]:
        """Give the ids of the tensors that hold other values than when the guard was made."""
        return {key for snapshot in self._snapshots for key in snapshot.changed()}

    def other_attributes(self) -> list[tuple[nn.Module, str]]:
        """List the attributes of modules that hold something else than they did."""
        return self._modules.differing()

    def frozen_or_thawed(self) -> set[int]:
        """Give the ids of the tensors that ask for gradients and did not, or the other way round."""
        return {key for key, leaf in self._leaves.items() if leaf.asks_otherwise()}

    def restore(self, findings: Findings | None = None, *, trust_versions: bool = False) -> None:
        """Put everything back: values, gradients, the tensors held under each name, training flags, attributes.

        Whoever has just looked hands over what was found, and nothing is looked at again.
        """
        if not (self._modules.are_intact() if findings is None else findings.is_intact):
            self._modules.restore()
        for snapshot in self._snapshots:
            if findings is not None:
                snapshot.restore(findings.changed)
            else:
                snapshot.restore(snapshot.changed_by_version() if trust_versions else snapshot.changed())
        for leaf in self._leaves.values():
            leaf.restore()
        self._generators.restore()


class _SavedLeaf:
    """Whether a leaf asked for gradients, and the gradient it held."""

    __slots__ = ("_requires_grad", "_tensor", "grad")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self.grad, self._requires_grad = tensor, tensor.grad, tensor.requires_grad

    def asks_otherwise(self) -> bool:
        """Tell whether the tensor asks for gradients and did not, or the other way round."""
        return self._tensor.requires_grad != self._requires_grad

    def restore(self) -> None:
        """Give the tensor its gradient back."""
        tensor = self._tensor
        if not tensor.is_leaf:
            # Made part of a graph in place: what it was before is all that counts.
            tensor.detach_()
        if tensor.grad is not self.grad:
            tensor.grad = self.grad
        if tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
