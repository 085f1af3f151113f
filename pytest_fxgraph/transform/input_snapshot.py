"""Did a transform, while it ran, change the inputs that its graph is to be checked with?"""

from __future__ import annotations

import torch

from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.state.held_values import MISSING, Array, Container, HeldValues
from pytest_fxgraph.equivalence.state.leaf_facts import LeafFacts
from pytest_fxgraph.equivalence.state.storage import is_readable
from pytest_fxgraph.equivalence.state.tensor_snapshot import ValueSnapshot
from pytest_fxgraph.transform.model_snapshot import describe_attribute, listed_changes


class InputSnapshot:
    """The inputs of a check at one time: names what changed since, and restores it."""

    def __init__(self, arguments: Arguments) -> None:
        self._held = HeldValues()
        for name, value in arguments.named():
            self._held.follow(name, value)
        self._tensors = [(path, tensor) for path, tensor in self._held.tensors if is_readable(tensor)]
        self._values = ValueSnapshot(tensor for _, tensor in self._tensors)
        self._leaves = LeafFacts()
        for _, tensor in self._tensors:
            if tensor.is_leaf:
                self._leaves.include(tensor)

    def changes(self) -> list[str]:
        """List the changes in words: "input 0 has other values", "input 1['k'] was 1 and is 2"."""
        changed = self._values.changed()
        facts = [*self._values.changed_strides(), *self._leaves.changes(changed)]
        found: list[str] = []
        for path, tensor in self._tensors:
            found += [f"{path} has other values"] if id(tensor) in changed else []
            found += [f"{path} {words}" for key, words in facts if key == id(tensor)]
        for container in self._held.containers:
            for path, before, after in container.changes():
                if isinstance(before, torch.Tensor) or isinstance(after, torch.Tensor):
                    found.append(f"{path} {'is gone' if after is MISSING else 'is another object'}")
                found += describe_attribute(path, before, after)
        found += [f"{array.path} has other values" for array in self._held.arrays if not array.is_unchanged()]
        return found

    def check(self, name: str) -> None:
        """Raise AssertionError, naming the pass, if it changed anything; it is put back."""
        __tracebackhide__ = True
        changes = self.changes()
        if changes:
            self.restore()
            raise AssertionError(
                f"{name}, while it ran, changed the inputs of the check: {listed_changes(changes)}; they were put "
                "back. A pass that runs the graph on an example must run it on a copy (x.clone())"
            )

    def restore(self) -> None:
        """Put the inputs back."""
        nested_values: list[Container | Array] = [*self._held.containers, *self._held.arrays]
        for nested in nested_values:
            if not nested.is_unchanged():
                nested.restore()
        self._values.restore(self._values.changed())
        if not self._leaves.are_unchanged():
            self._leaves.restore()
