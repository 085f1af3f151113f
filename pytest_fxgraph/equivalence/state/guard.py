"""The state of modules before a run: to find out what the run changed, and to restore it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn

from fxcore.gc_pause import gc_paused
from pytest_fxgraph.equivalence.state.generators import GeneratorStates, OwnGenerators
from pytest_fxgraph.equivalence.state.module_state import ModuleState, modules_by_path
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool, ValueSnapshot

# Of a graph module only these are restored: its other attributes are compiled code, which a run does not change.
_STATE_ATTRIBUTES = ("training", "_parameters", "_buffers", "_modules")


class SavedModules:
    """The attributes of modules, and the contents of those that are dicts, lists and sets.

    All of it is compared after each call; the comparison is one walk that runs in C.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[nn.Module, dict[str, Any]]] = {}
        # Most dicts of most modules (hooks, buffers) are empty before and after: one any() asks all of them.
        self._empty: list[Any] = []
        self._sequences: list[tuple[Any, Any]] = []
        self._mappings: list[dict[Any, Any]] = []
        self._copies: list[dict[Any, Any]] = []  # of the mappings, in their order
        self._keys: list[Any] = []  # of all copies, one after the other
        self._values: list[Any] = []

    def include(self, modules: Iterable[nn.Module]) -> None:
        """Save more modules; a module that is known keeps what was saved first."""
        known = len(self._copies)
        for module in modules:
            if id(module) not in self._held:
                self._save(module)
        self._keys += chain.from_iterable(self._copies[known:])
        self._values += _values_of(self._copies[known:])

    def _save(self, module: nn.Module) -> None:
        now = module.__dict__
        held = now.copy()
        self._held[id(module)] = module, held
        self._mappings.append(now)
        self._copies.append(held)
        for value in held.values():
            if isinstance(value, dict):
                if value:
                    self._mappings.append(value)
                    self._copies.append(value.copy())
                else:
                    self._empty.append(value)
            elif isinstance(value, (list, set)):
                self._sequences.append((value, value.copy()))

    def are_unchanged(self) -> bool:
        """Tell whether all modules hold the same objects as when they were saved."""
        values = list(_values_of(self._mappings))
        return (
            len(values) == len(self._values)
            and all(map(operator.is_, values, self._values))
            and list(chain.from_iterable(self._mappings)) == self._keys
            and not any(self._empty)
            and all(_holds_same(container, content) for container, content in self._sequences)
        )

    def changed_attributes(self) -> list[tuple[nn.Module, str]]:
        """List the attributes that were added, deleted, bound to another object, or whose dict, list or set changed.

        Each is a module and a name. Graph modules are left out, for they keep their compiled code in attributes.
        """
        contents = {
            id(container): (container, content)
            for container, content in [*zip(self._mappings, self._copies, strict=True), *self._sequences]
        }
        contents.update({id(container): (container, type(container)) for container in self._empty if container})
        found = []
        for module, held in self._held.values():
            if _is_graph_module(module):
                continue
            now = module.__dict__
            for name in {**held, **now}:
                is_same = name in held and name in now and held[name] is now[name]
                if not is_same or _content_changed(contents.get(id(now[name]))):
                    found.append((module, name))
        return found

    def restore(self) -> None:
        """Give all modules their attributes back, in the saved order, and containers their contents."""
        kept: set[int] = set()
        for module, held in self._held.values():
            kept |= _restore_attributes(module, held)
        for container in self._empty:
            if container and id(container) in kept:
                container.clear()
        for container, content in [*zip(self._mappings, self._copies, strict=True), *self._sequences]:
            if id(container) in kept and not _holds_same(container, content):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)


def _content_changed(pair: tuple[Any, Any] | None) -> bool:
    """Tell whether a container changed; of one that was empty, and no longer is, only the type was saved."""
    return pair is not None and (isinstance(pair[1], type) or not _holds_same(*pair))


def _values_of(mappings: list[dict[Any, Any]]) -> Iterable[Any]:
    return chain.from_iterable(map(dict.values, mappings))


def _restore_attributes(module: nn.Module, held: dict[str, Any]) -> set[int]:
    """Bind a module's attributes to the saved objects, and return the ids of these."""
    now = module.__dict__
    if _is_graph_module(module):
        held = {name: held[name] for name in _STATE_ATTRIBUTES if name in held}
    elif list(now) != list(held):
        now.clear()
    now.update(held)
    return set(map(id, held.values()))


def _holds_same(container: Any, content: Any) -> bool:
    """Tell whether a container holds the same objects; comparing with == would compare tensors."""
    if len(container) != len(content):
        return False
    if isinstance(container, set):
        return bool(container == content)
    if isinstance(container, dict):
        return list(container) == list(content) and all(map(operator.is_, container.values(), content.values()))
    return all(map(operator.is_, container, content))


def _is_graph_module(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule) or any(
        kind.__name__ == "GraphModule" for kind in type(module).__mro__
    )


@dataclass(frozen=True)
class ModuleChanges:
    """What a call did to the modules."""

    changed: set[int]  # ids of the tensors whose values changed
    has_uncounted_writes: bool  # one of them was written in a way that torch does not count
    modules_unchanged: bool  # all modules hold the same objects as before
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
        self._gradients: dict[int, _SavedGradient] = {}
        self._known: set[int] = set()  # ids of tensors, the gradients among them
        for root in roots:
            self.include(root)

    def include(self, root: object) -> None:
        """Save the state of one more module; what is known keeps the state that was saved first.

        Raises TypeError if a lazy module has no shapes yet.
        """
        if id(root) in self._states:
            return
        # Thousands of small objects that all stay: the garbage collector would scan them again and again.
        with gc_paused():
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
                    self._gradients[id(tensor)] = saved = _SavedGradient(tensor)
                    if saved.grad is not None and id(saved.grad) not in self._known:
                        self._known.add(id(saved.grad))
                        new[id(saved.grad)] = saved.grad
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
        same_tensors = modules_unchanged and not any(snapshot.has_new_data() for snapshot in self._snapshots)
        now = self._states[id(root)] if same_tensors else ModuleState(root)
        return ModuleChanges(changed, uncounted, modules_unchanged, self._generators.changed(), now)

    def changed(self) -> set[int]:
        """Return the ids of the tensors whose values changed; reads all of them."""
        return {key for snapshot in self._snapshots for key in snapshot.changed()}

    def changed_attributes(self) -> list[tuple[nn.Module, str]]:
        """List the attributes of modules that changed, each as module and name."""
        return self._modules.changed_attributes()

    def changed_requires_grad(self) -> set[int]:
        """Return the ids of the leaf tensors whose `requires_grad` changed."""
        return {key for key, saved in self._gradients.items() if saved.requires_grad_changed()}

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
        for saved in self._gradients.values():
            saved.restore()
        self._generators.restore()


class _SavedGradient:
    """The gradient of a leaf tensor and its `requires_grad`."""

    __slots__ = ("_requires_grad", "_tensor", "grad")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self.grad, self._requires_grad = tensor, tensor.grad, tensor.requires_grad

    def requires_grad_changed(self) -> bool:
        """Tell whether `requires_grad` is another than it was."""
        return self._tensor.requires_grad != self._requires_grad

    def restore(self) -> None:
        """Give the tensor its gradient and `requires_grad` back."""
        tensor = self._tensor
        if not tensor.is_leaf:
            # A write in place made it the result of an operator.
            tensor.detach_()
        if tensor.grad is not self.grad:
            tensor.grad = self.grad
        if tensor.requires_grad != self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
