"""Module paths for make_fx, which records operators alone: the calls of modules around each node, in its metadata.

autograd numbers the operators of a forward, and its backward has their numbers. A node of a backward gets the
calls that ran when its number was given.
"""

from __future__ import annotations

import bisect
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from pytest_fxgraph.captures.torch_internals import part_of_torch

_Stack = Mapping[str, tuple[str, type]]


@contextlib.contextmanager
def module_paths_noted(model: Any) -> Iterator[None]:
    """Note the calls of a model's submodules in the metadata of each node that make_fx records in a `with` block.

    A release of torch that does not tell the numbers of autograd leaves nodes of a backward without a path.
    """
    if not isinstance(model, nn.Module):
        yield
        return
    calls = _Calls({id(module): path for path, module in model.named_modules() if path})
    tracer = part_of_torch("torch.fx", "Tracer", "frontend 'make_fx'")
    create_node = tracer.create_node
    call: Any = nn.Module._call_impl

    def created(self: Any, kind: str, *args: Any, **kwargs: Any) -> Any:
        node = create_node(self, kind, *args, **kwargs)
        stack = calls.of_this_moment() if kind in ("call_function", "get_attr") else None
        if stack:
            node.meta["nn_module_stack"] = OrderedDict(stack)
        return node

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        with calls.entered(self):
            return call(self, *args, **kwargs)

    with patch.object(tracer, "create_node", created), patch.object(nn.Module, "_call_impl", called):
        yield


class _Calls:
    """The calls of modules that run now, and those that ran at each number of autograd."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = paths
        self._running: _Stack = {}
        self._counts: Counter[str] = Counter()
        self._numbers: list[int] = []  # ascending: the first number of the calls at the same place
        self._since: list[_Stack] = []
        self._next_number = getattr(torch.autograd, "_get_sequence_nr", None)
        self._running_backward = getattr(torch._C, "_current_autograd_node", lambda: None)

    @contextlib.contextmanager
    def entered(self, module: Any) -> Iterator[None]:
        """Be in a call of a module for a `with` block."""
        path = self._paths.get(id(module))
        if path is None:
            yield
            return
        outer, count = self._running, self._counts[path]
        self._counts[path] += 1
        self._change({**outer, f"{path}@{count}" if count else path: (path, type(module))})
        try:
            yield
        finally:
            self._change(outer)

    def _change(self, stack: _Stack) -> None:
        self._running = stack
        if self._next_number is not None:
            self._numbers.append(self._next_number())
            self._since.append(stack)

    def of_this_moment(self) -> _Stack:
        """Return the calls that run, or in a backward the calls in which its forward ran; nothing outside of both."""
        backward = None if self._running else self._running_backward()
        number = getattr(backward, "_sequence_nr", lambda: None)()
        place = 0 if number is None else bisect.bisect_right(self._numbers, number)
        # Gradients are added up under the greatest number, which is no forward's.
        is_of_a_forward = 0 < place < len(self._since)
        return self._since[place - 1] if is_of_a_forward else self._running
