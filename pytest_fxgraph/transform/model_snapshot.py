"""Did a transform change the model it was given? Tensors, attributes and what they hold, hooks, classes, order."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

from pytest_fxgraph.equivalence.nested_values import shown
from pytest_fxgraph.equivalence.state.guard import StateGuard
from pytest_fxgraph.equivalence.state.held_values import MISSING, is_plain
from pytest_fxgraph.equivalence.state.module_state import ModuleState, is_graph_module, modules_by_path

# Their contents are told one by one.
_REGISTERED = {"_parameters": "parameters", "_buffers": "buffers", "_modules": "modules"}


class ModelSnapshot:
    """The state of a model at one time: names what changed since, and restores it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._guard = StateGuard(model)
        self._state = self._guard.state_of(model)
        self._classes = ClassSnapshot(model)

    def changes(self) -> list[str]:
        """List the changes in words: "parameter conv.weight has other values", "bn.eps was 1e-05 and is 0.1"."""
        now = {state.name: state.tensor for state in ModuleState(self._model).tensors}
        changed = self._guard.changed()
        facts = self._guard.changed_facts(changed)
        found: list[str] = []
        for state in self._state.tensors:
            if state.name not in now:
                found.append(f"{state.label} is gone")
            elif now[state.name] is not state.tensor:
                found.append(f"{state.label} is another tensor")
            elif id(state.tensor) in changed:
                found.append(f"{state.label} has other values")
            found += [f"{state.label} {words}" for words in facts.get(id(state.tensor), ())]
        known = {state.name for state in self._state.tensors}
        found += [f"{name} is new" for name in now if name not in known]
        for path, before, after in self._guard.changed_attributes():
            found += describe_attribute(path, before, after)
        return found + self._classes.changes()

    def restore(self) -> None:
        """Restore the model."""
        self._classes.restore()
        self._guard.restore()


def listed_changes(changes: list[str]) -> str:
    """Return the first three changes, and how many more there are."""
    return "; ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")


def describe_attribute(path: str, before: Any, after: Any) -> Iterator[str]:
    """Say what became of an attribute; nothing for tensors, which are told as such."""
    prefix, _, name = path.rpartition(".")
    if name in _REGISTERED and isinstance(before, dict) and isinstance(after, dict):
        yield from _described_members(prefix, name, before, after)
    elif isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor):
        return
    elif _is_readable(before) and _is_readable(after):
        # Two objects may say the same: a number that was computed anew.
        if _written(before) != _written(after):
            yield f"{path} was {_written(before)} and is {_written(after)}"
    else:
        state = "is gone" if after is MISSING else "is new" if before is MISSING else "holds something else"
        yield f"{path} {'was replaced' if name == 'forward' else state}"


def _described_members(prefix: str, name: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Say which modules are others, or that the order of what is registered changed, and with it that of state_dict."""
    if name == "_modules":
        for member in {**before, **after}:
            expected, obtained = before.get(member), after.get(member)
            if expected is not obtained:
                path = f"module {prefix}.{member}" if prefix else f"module {member}"
                kinds = [type(module).__qualname__ if module is not None else "missing"
                         for module in (expected, obtained)]  # fmt: skip
                alike = f"{path} is another {kinds[0]}"
                yield alike if kinds[0] == kinds[1] else f"{path} was {kinds[0]} and is {kinds[1]}"
    common, obtained_order = [key for key in before if key in after], [key for key in after if key in before]
    if common != obtained_order:
        owner = prefix or "the model"
        yield (
            f"the {_REGISTERED[name]} of {owner} are in another order: {', '.join(common[:5])} became "
            f"{', '.join(obtained_order[:5])}"
        )


def _is_readable(value: Any) -> bool:
    if type(value) in (tuple, list, set):
        return all(type(part) is not types.FunctionType and is_plain(part) for part in value)
    is_function = isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return value is MISSING or (is_plain(value) and not is_function)


def _written(value: Any) -> str:
    if isinstance(value, type):
        return value.__qualname__
    return "missing" if value is MISSING else shown(value)


class ClassSnapshot:
    """The functions of the classes of a model's modules: another `type(model).forward` changes other models, too."""

    def __init__(self, model: Any) -> None:
        kinds: dict[type, None] = {}
        for kind in {type(module) for _, module in modules_by_path(model) if not is_graph_module(module)}:
            kinds.update(dict.fromkeys(part for part in kind.__mro__ if part is not object))
        self._members = {kind: _functions_of(kind) for kind in kinds}

    def changes(self) -> list[str]:
        """List the functions that are others now."""
        return [f"{kind.__qualname__}.{name}, of the class, {'is gone' if now is MISSING else 'is another function'}"
                for kind, name, _, now in self._changed()]  # fmt: skip

    def restore(self) -> None:
        """Give the classes their functions back."""
        for kind, name, before, _ in list(self._changed()):
            if before is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, before)

    def _changed(self) -> Iterator[tuple[type, str, Any, Any]]:
        for kind, members in self._members.items():
            now = _functions_of(kind)
            for name in {**members, **now}:
                before, after = members.get(name, MISSING), now.get(name, MISSING)
                if before is not after:
                    yield kind, name, before, after


def _functions_of(kind: type) -> dict[str, Any]:
    descriptors = (staticmethod, classmethod, property)
    return {
        name: member
        for name, member in vars(kind).items()
        if isinstance(member, descriptors) or (callable(member) and not isinstance(member, type))
    }
