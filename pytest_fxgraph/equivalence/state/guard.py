"""What modules are before a lane runs, and putting them back afterwards."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn

from fxcore.gc_pause import gc_paused
from pytest_fxgraph.equivalence.state.generators import Moved, OwnGenerators
from pytest_fxgraph.equivalence.state.module_state import ModuleState, modules_by_path
from pytest_fxgraph.equivalence.state.tensor_snapshot import BufferPool, ValueSnapshot

# Of a graph module only these are put back: what else it holds is its compiled code, which a lane cannot harm.
_STATE_ATTRIBUTES = ("training", "_parameters", "_buffers", "_modules")


class SavedModules:
    """Modules, their attributes, and what those of them that are dicts, lists and sets held.

    All of it is compared after each call, so the comparison is one walk over everything that runs in C.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[nn.Module, dict[str, Any]]] = {}
        # Most hooks and buffers of most modules are none, before and after: those are asked in one go.
        self._empty: list[Any] = []
        self._sequences: list[tuple[Any, Any]] = []
        self._mappings: list[dict[Any, Any]] = []
        self._copies: list[dict[Any, Any]] = []
        self._keys: list[Any] = []  # those of all copies, one after the other
        self._values: list[Any] = []

    def include(self, modules: Iterable[nn.Module]) -> None:
        """Keep some more modules; what is known already stays as it was first seen."""
        known = len(self._copies)
        for module in modules:
            if id(module) not in self._held:
                self._keep(module)
        self._keys += chain.from_iterable(self._copies[known:])
        self._values += _values_of(self._copies[known:])

    def _keep(self, module: nn.Module) -> None:
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

    def are_intact(self) -> bool:
        """Tell whether all modules hold the very objects that they held."""
        values = list(_values_of(self._mappings))
        return (
            len(values) == len(self._values)
            and all(map(operator.is_, values, self._values))
            and list(chain.from_iterable(self._mappings)) == self._keys
            and not any(self._empty)
            and all(_holds(container, content) for container, content in self._sequences)
        )

    def differing(self) -> list[tuple[nn.Module, str]]:
        """List the attributes that hold another object, are gone or new, or hold a dict, list or set of other content.

        Of graph modules nothing is told: they keep their compiled code in attributes.
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
                if not is_same or _has_other_content(contents.get(id(now[name]))):
                    found.append((module, name))
        return found

    def restore(self) -> None:
        """Give all modules back what they held, in the order they held it."""
        kept: set[int] = set()
        for module, held in self._held.values():
            kept |= _restore_attributes(module, held)
        for container in self._empty:
            if container and id(container) in kept:
                container.clear()
        for container, content in [*zip(self._mappings, self._copies, strict=True), *self._sequences]:
            if id(container) in kept and not _holds(container, content):
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)


def _has_other_content(pair: tuple[Any, Any] | None) -> bool:
    """Tell it of a container and what it held; of one that was empty, and is no more, there is only the type."""
    return pair is not None and (isinstance(pair[1], type) or not _holds(*pair))


def _values_of(mappings: list[dict[Any, Any]]) -> Iterable[Any]:
    return chain.from_iterable(map(dict.values, mappings))


def _restore_attributes(module: nn.Module, held: dict[str, Any]) -> set[int]:
    """Bind the attributes of a module anew, and give the ids of the objects that it is meant to hold."""
    now = module.__dict__
    if _is_graph_module(module):
        held = {name: held[name] for name in _STATE_ATTRIBUTES if name in held}
    elif list(now) != list(held):
        now.clear()
    now.update(held)
    return set(map(id, held.values()))


def _holds(container: Any, content: Any) -> bool:
    """Tell whether a container holds the very objects that it held; equality would compare tensors."""
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
class Findings:
    """What a call did to the modules."""

    changed: set[int]  # ids of tensors that hold other values
    changed_unseen: bool  # one of them was written in a way that torch does not count
    is_intact: bool  # all modules hold the very objects that they held
    generators: Moved  # those of the modules' own that were drawn from
    now: ModuleState  # the very state_of(root) if nothing was replaced


class StateGuard:
    """Keeps the state of some modules, tells what a lane changed in it, and restores it."""

    def __init__(self, *roots: object, spare: BufferPool | None = None) -> None:
        self._spare = spare or BufferPool()
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
