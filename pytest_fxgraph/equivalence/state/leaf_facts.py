"""What tensors carry beside their values: `requires_grad`, gradient and hooks of those that are leaves."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

_HOOKS = {"_backward_hooks": "tensor hooks", "_post_accumulate_grad_hooks": "hooks after its gradient"}


class LeafFacts:
    """The gradients, hooks and `requires_grad` of leaf tensors; compared after each call in a few walks."""

    def __init__(self) -> None:
        self._tensors: list[torch.Tensor] = []
        self._gradients: list[torch.Tensor | None] = []
        self._requires_grad: list[bool] = []
        self._hooks: dict[str, list[Any]] = {name: [] for name in _HOOKS}  # the dicts, None where there is none
        self.gradients: set[int] = set()  # ids
        self._contents: list[tuple[dict[Any, Any], dict[Any, Any]]] = []  # of the dicts, with copies

    def include(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Save a leaf's facts, and return its gradient."""
        self._tensors.append(tensor)
        self._gradients.append(tensor.grad)
        self._requires_grad.append(tensor.requires_grad)
        for name, saved in self._hooks.items():
            hooks = getattr(tensor, name)
            saved.append(hooks)
            if hooks is not None:
                self._contents.append((hooks, dict(hooks)))
        if tensor.grad is not None:
            self.gradients.add(id(tensor.grad))
        return tensor.grad

    def are_unchanged(self) -> bool:
        """Tell whether all leaves have the gradients, hooks and `requires_grad` that they had."""
        tensors = self._tensors
        # First, for asking another tensor for its gradient makes torch warn.
        return (
            all(tensor.is_leaf for tensor in tensors)
            and [tensor.requires_grad for tensor in tensors] == self._requires_grad
            and all(map(operator.is_, [tensor.grad for tensor in tensors], self._gradients))
            and all(map(operator.is_, [tensor._backward_hooks for tensor in tensors], self._hooks["_backward_hooks"]))
            and all(
                tensor._post_accumulate_grad_hooks is hooks
                for tensor, hooks in zip(tensors, self._hooks["_post_accumulate_grad_hooks"], strict=True)
            )
            and all(_holds_same(hooks, content) for hooks, content in self._contents)
        )

    def changes(self, changed: set[int]) -> Iterator[tuple[int, str]]:
        """Yield the id of each leaf that changed, with what is to be said of it.

        `changed` are the ids of tensors, gradients among them, whose values changed.
        """
        contents = {id(hooks): content for hooks, content in self._contents}
        for index, tensor in enumerate(self._tensors):
            if not tensor.is_leaf:
                continue  # the result of a write in place, which is told as that
            if tensor.requires_grad != self._requires_grad[index]:
                yield id(tensor), f"has requires_grad={tensor.requires_grad} now"
            before, now = self._gradients[index], tensor.grad
            if before is not now or (now is not None and id(now) in changed):
                is_new = "a gradient now" if before is None else "no gradient any more" if now is None else None
                yield id(tensor), f"has {is_new or 'another gradient'}"
            for name, what in _HOOKS.items():
                saved, hooks = self._hooks[name][index], getattr(tensor, name)
                if not _holds_same(hooks or {}, contents.get(id(saved), {})):
                    yield id(tensor), f"has other {what}"

    def restore(self) -> None:
        """Give the leaves back what they had."""
        for hooks, content in self._contents:
            if not _holds_same(hooks, content):
                hooks.clear()
                hooks.update(content)
        for index, tensor in enumerate(self._tensors):
            if not tensor.is_leaf:
                tensor.detach_()  # a write in place made it the result of an operator
            if tensor.grad is not self._gradients[index]:
                tensor.grad = self._gradients[index]
            if tensor.requires_grad != self._requires_grad[index]:
                tensor.requires_grad_(self._requires_grad[index])
            for name, saved in self._hooks.items():
                if getattr(tensor, name) is not saved[index]:
                    setattr(tensor, name, saved[index])


def _holds_same(hooks: dict[Any, Any], content: dict[Any, Any]) -> bool:
    return len(hooks) == len(content) and all(hooks.get(key) is value for key, value in content.items())
