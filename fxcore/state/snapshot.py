"""One protocol for the state of models, inputs and the process: keep it, name each change, put it back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import nn

from fxcore.graph import gc_paused
from fxcore.state.changes import MISSING, Change, TensorFact
from fxcore.state.containers import Container, Containers, is_graph_module
from fxcore.state.held_state import HeldState, StateTensor, modules_by_path
from fxcore.state.leaf_facts import LeafFacts
from fxcore.state.outer_state import Attributes, OuterState
from fxcore.state.readings import Reading, Readings, global_generators
from fxcore.state.settings import MODES, SETTINGS
from fxcore.state.storage import has_storage, storage_of
from fxcore.state.tensor_values import BufferPool, ValueSnapshot
from fxcore.state.writes import CopyBeforeWrite


class Findings(NamedTuple):
    """The result of one comparison of a snapshot with the present state."""

    changed: set[int]  # ids of the tensors with other values, gradients among them
    has_uncounted_writes: bool  # torch did not count a write to one of these tensors
    has_new_data: bool  # a tensor has other memory
    containers_unchanged: bool
    leaves_unchanged: bool


class Snapshot:
    """The state of models, values and settings at one time. A known object keeps the state that was saved first."""

    def __init__(self, *models: object, buffer_pool: BufferPool | None = None) -> None:
        self._buffer_pool = buffer_pool
        self._states: dict[int, HeldState] = {}
        self._sources: list[tuple[object, list[tuple[str, Any]]]] = []
        self._containers = Containers()
        self._readings = Readings()
        self._values: list[ValueSnapshot] = []
        self._leaves = LeafFacts()
        self._known: set[int] = set()  # ids of tensors, gradients among them
        for model in models:
            self.include(model)

    @classmethod
    def of_values(cls, named: Iterable[tuple[str, Any]]) -> Snapshot:
        """Save values, such as the inputs of a call, by name."""
        snapshot, values = cls(), list(named)
        snapshot._save(None, values, HeldState(values=values))
        return snapshot

    @classmethod
    def of_globals(cls, *, generators: bool = True, settings: bool = True) -> Snapshot:
        """Save the generators that every function may draw from, and torch's settings for the whole process."""
        snapshot = cls()
        if generators:
            snapshot._readings = Readings(global_generators())
        snapshot._readings.add(SETTINGS if settings else ())
        return snapshot

    def include(self, model: object, *, parameters: bool = True) -> None:
        """Save the state of one more module; any other object has no state.

        Without `parameters`, parameters get back their memory and facts, but not values that were written in place.
        """
        if id(model) not in self._states:
            # The garbage collector would scan thousands of small objects that all stay.
            with gc_paused():
                self._save(model, [], HeldState(model), parameters=parameters)

    def include_code(self, model: object, functions: Iterable[Any] = ()) -> None:
        """Save the attributes of the classes of a model, and the variables that hooks, methods and `functions` enclose.

        Values of parameters among these are not copied.
        """
        outer = OuterState(self._states[id(model)].modules, functions)
        self._readings.add(outer.readings)
        if outer.values:
            state = HeldState(values=outer.values)
            self._save(outer, outer.values, state, parameters=False)

    def copy_before_write(self, tensor: torch.Tensor) -> None:
        """Copy the values of a parameter without a copy that shares memory with `tensor`, which is to be written."""
        if has_storage(tensor):
            storage = storage_of(tensor)
            for values in self._values:
                values.copy_before_write(storage)

    def include_classes(self, model: object) -> None:
        """Save the functions of the modules' classes, because another `type(model).forward` changes other models."""
        kinds: dict[type, None] = {}
        for kind in {type(module) for _, module in modules_by_path(model) if not is_graph_module(module)}:
            kinds.update(dict.fromkeys(part for part in kind.__mro__ if part is not object))
        self._containers.add(Container(kind.__qualname__, kind, "class") for kind in kinds)

    def _save(self, model: object, values: list[tuple[str, Any]], state: HeldState, *, parameters: bool = True) -> None:
        self._sources.append((model, values))
        self._states[id(model)] = state
        self._containers.add_modules(state.modules)
        self._containers.add(state.containers)
        self._readings.add(state.readings)
        new = {id(each.tensor): each.tensor for each in state.tensors if id(each.tensor) not in self._known}
        gradients = self._leaves.include([tensor for tensor in new.values() if tensor.is_leaf])
        not_copied: set[int] = set()
        if parameters:
            new |= {id(gradient): gradient for gradient in gradients if id(gradient) not in self._known}
        else:
            not_copied = {id(each.tensor) for each in state.tensors if each.kind == "parameter"}
        self._known |= new.keys()
        if new:
            self._values.append(ValueSnapshot(new.values(), self._buffer_pool, not_copied))

    def close(self) -> None:
        """Give the memory of the copies back to the pool. Afterwards the snapshot cannot be used any more."""
        for values in self._values:
            values.release()
        self._values.clear()

    def tensors(self) -> Iterator[StateTensor]:
        """Yield all tensors that were saved."""
        for state in self._states.values():
            yield from state.tensors

    def state_of(self, model: object) -> HeldState:
        """Return the state that a model had when it was included."""
        return self._states[id(model)]

    def state_now(self, model: object, findings: Findings) -> HeldState:
        """Return the present state of a model; the saved one if all modules hold the same objects as before."""
        is_same = findings.containers_unchanged and not findings.has_new_data
        return self._states[id(model)] if is_same else HeldState(model)

    def compare(self, *, trust_versions: bool = False) -> Findings:
        """Compare the state with the present one.

        With `trust_versions`, tensors without a counted write are not read: writes through `.data` are not found.
        """
        changed: set[int] = set()
        is_uncounted = False
        for values in self._values:
            found = values.changed(trust_versions=trust_versions)
            is_uncounted = is_uncounted or not all(map(values.has_new_version, found))
            changed |= found
        has_new_data = any(values.has_new_data() for values in self._values)
        return Findings(
            changed, is_uncounted, has_new_data, self._containers.are_unchanged(), self._leaves.are_unchanged()
        )

    def facts(self, findings: Findings) -> dict[int, list[TensorFact]]:
        """Return the changed strides, gradients, hooks and `requires_grad` by the id of the tensor."""
        found: dict[int, list[TensorFact]] = {}
        has_changed_gradients = not self._leaves.gradients.isdisjoint(findings.changed)
        if findings.has_new_data or has_changed_gradients or not findings.leaves_unchanged:
            strides = (TensorFact(key, "strides", *each) for values in self._values
                       for key, *each in values.changed_strides())  # fmt: skip
            for fact in chain(strides, self._leaves.changes(findings.changed)):
                found.setdefault(fact.key, []).append(fact)
        return found

    def changed_readings(self) -> list[Change]:
        """Return the changes of generators, arrays and settings."""
        return self._readings.changes()

    def changes(self) -> Sequence[Change]:
        """Return all changes since the snapshot, those of tensors first."""
        findings = self.compare()
        facts = self.facts(findings)
        found: dict[str, list[Change]] = {}  # by path, in this order
        held = list(self._containers.changes())
        told = {change.path for change in held}
        for model, values in self._sources:
            state, now = self._states[id(model)], HeldState(model, values)
            for change in _tensor_changes(state, now, findings.changed, facts):
                if change.before is not MISSING or change.path not in told:
                    found.setdefault(change.path, []).append(change)
        return [
            *chain.from_iterable(found.values()),
            *(change for change in held if change.path not in found or change.what != "held"),
            *self._readings.changes(),
        ]

    def changes_beside_modules(self) -> Iterator[Change]:
        """Yield the changes of containers, arrays, attributes of objects and classes, variables and settings.

        Paths of a model's own containers start with "self.".
        """
        own = {id(container.value) for _, state in zip(range(1), self._states.values(), strict=False)
               for container in state.containers}  # fmt: skip
        for container in self._containers.others_changed():
            for change in container.changes():
                yield change._replace(path=f"self.{change.path}") if id(container.value) in own else change
        for change in self._readings.changes(but=_is_followed_by_traces):
            if isinstance(change.before, Attributes):
                yield from _attribute_changes(change)
            else:
                is_own = change.role in ("array", "generator")
                yield change._replace(path=f"self.{change.path}") if is_own else change

    def restore(self, findings: Findings | None = None, *, trust_versions: bool = False) -> None:
        """Put the state back. `findings` of a comparison just before save the comparison here."""
        found = findings or self.compare(trust_versions=trust_versions)
        if not found.containers_unchanged:
            self._containers.restore()
        for values in self._values:
            values.restore(found.changed)
        if not found.leaves_unchanged:
            self._leaves.restore()
        self._readings.restore()


def _is_followed_by_traces(reading: Reading) -> bool:
    """Return whether a trace changes a value itself: it enters modes, and records draws from most generators."""
    if reading.role != "generator":
        return reading.path == MODES
    is_global = any(each.owner is reading.owner for each in global_generators())
    return is_global or isinstance(reading.owner, torch.Generator)


def _attribute_changes(change: Change) -> Iterator[Change]:
    """Yield the changes of the attributes of a class, or of a variable."""
    before, after = change.before.held, change.after.held
    for name in before.keys() | after.keys():
        # A trace replaces functions of classes for a while.
        if before.get(name, MISSING) is not after.get(name, MISSING) and not _is_function(before.get(name)):
            path = f"{change.path}.{name}" if name else change.path
            yield Change(path, "held", before.get(name, MISSING), after.get(name, MISSING), change.role)


def _is_function(value: object) -> bool:
    return isinstance(value, (FunctionType, staticmethod, classmethod, property))


def _tensor_changes(
    before: HeldState, now: HeldState, changed: set[int], facts: dict[int, list[TensorFact]]
) -> Iterator[Change]:
    after = {state.name: state.tensor for state in now.tensors}
    for state in before.tensors:
        name, tensor = state.name, state.tensor
        obtained = after.pop(name, MISSING)
        if obtained is not tensor:
            yield Change(name, "held", tensor, obtained, state.kind)
        elif id(tensor) in changed:
            yield Change(name, "values", tensor, tensor, state.kind)
        for fact in facts.get(id(tensor), ()):
            yield Change(name, fact.what, fact.before, fact.after, state.kind)
    for name, tensor in after.items():
        yield Change(name, "held", MISSING, tensor)


@contextmanager
def kept(snapshot: Snapshot) -> Iterator[Snapshot]:
    """Restore a snapshot at the end of a with block, also after an error."""
    try:
        yield snapshot
    finally:
        snapshot.restore()


def globals_kept(*, generators: bool = True, settings: bool = True) -> AbstractContextManager[Snapshot]:
    """Restore the global random generators and torch's settings at the end of a with block, also after an error."""
    return kept(Snapshot.of_globals(generators=generators, settings=settings))


@contextmanager
def state_kept(
    model: object, added: Collection[str] = (), *, functions: Iterable[Any] = (), parameters: bool = False
) -> Iterator[Snapshot]:
    """Restore a model, the global generators and torch's settings at the end of a with block, also after an error.

    Attributes of the model's classes and variables that hooks, methods and `functions` enclose are restored, too.
    Copies of all parameters take memory. A parameter is copied right before the first write that torch's dispatcher
    sees: with `parameters`, every write in the block; otherwise the writes that the caller gives to
    `Snapshot.copy_before_write`. Attributes of the model named in `added`, which is read at the end, stay: the graph
    of a trace refers to them.
    """
    snapshot = Snapshot()
    snapshot.include(model, parameters=False)
    snapshot.include_code(model, functions)
    snapshot._readings.add((*global_generators(), *SETTINGS))
    try:
        with CopyBeforeWrite(snapshot.copy_before_write) if parameters else nullcontext():
            yield snapshot
    finally:
        left = {}
        if added and isinstance(model, nn.Module):
            tables = (vars(model), model._parameters, model._buffers, model._modules)
            left = {name: table[name] for table in tables for name in added if name in table}
        snapshot.restore()
        for name, value in left.items():
            setattr(model, name, value)
