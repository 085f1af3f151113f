"""Facts of leaf tensors beside their values: gradient, `requires_grad` and hooks."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

from fxcore.state.changes import TensorFact

# In the order of restoring.
_FACTS = ("grad", "requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")


class LeafFacts:
    """The facts of many leaf tensors, compared in one walk per fact."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in _FACTS}
        self._hooks: dict[int, tuple[dict[Any, Any], dict[Any, Any]]] = {}  # each dict of hooks with a copy, by id
        self.gradients: set[int] = set()  # ids

    def include(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Save the facts of some leaves, and return their gradients."""
        start = len(self._tensors)
        self._tensors += tensors
        for name, column in self._columns.items():
            column += map(operator.attrgetter(name), tensors)
        found = {
            name: [value for value in column[start:] if value is not None] for name, column in self._columns.items()
        }
        for hooks in (*found["_backward_hooks"], *found["_post_accumulate_grad_hooks"]):
            self._hooks[id(hooks)] = hooks, dict(hooks)
        self.gradients.update(map(id, found["grad"]))
        return found["grad"]

    def are_unchanged(self) -> bool:
        """Return whether all leaves have their old facts."""
        tensors = self._tensors
        # The first question comes first, because torch warns about the gradient of a tensor that is no leaf.
        return (
            all(tensor.is_leaf for tensor in tensors)
            and all(
                all(map(operator.is_, map(operator.attrgetter(name), tensors), column))
                for name, column in self._columns.items()
            )
            and all(_holds_same(hooks, content) for hooks, content in self._hooks.values())
        )

    def changes(self, changed: set[int]) -> Iterator[TensorFact]:
        """Yield each fact that changed; `changed` are the ids of the tensors, and gradients, with other values."""
        for index, tensor in enumerate(self._tensors):
            if not tensor.is_leaf:
                continue  # the result of a write in place, which is a change of the values
            for name, column in self._columns.items():
                before, now = column[index], getattr(tensor, name)
                if name.endswith("_hooks"):
                    _, content = self._hooks.get(id(before), (None, {}))
                    is_same = _holds_same(now or {}, content)
                else:
                    is_same = before is now and id(now) not in changed
                if not is_same:
                    yield TensorFact(id(tensor), name, before, now)

    def restore(self) -> None:
        """Give the leaves back their facts."""
        for hooks, content in self._hooks.values():
            if not _holds_same(hooks, content):
                hooks.clear()
                hooks.update(content)
        for index, tensor in enumerate(self._tensors):
            if not tensor.is_leaf:
                tensor.detach_()  # a write in place made the tensor the result of an operator
            for name, column in self._columns.items():
                if getattr(tensor, name) is not column[index]:
                    setattr(tensor, name, column[index])


def _holds_same(hooks: dict[Any, Any], content: dict[Any, Any]) -> bool:
    return len(hooks) == len(content) and all(hooks.get(key) is value for key, value in content.items())
