"""Parameters and buffers of modules, read through a dict that tells who traces in this thread.

`nn.Module.__getattr__` could be replaced instead, as torch.fx does. But it is a special method: Python then goes
through every class of modules that there is, twice a trace, which takes longer than tracing a small model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

_lock = threading.Lock()
_KEYS = ("_parameters", "_buffers")

# What is read (its name and value) -> what the reader gets.
Answer = Callable[[str, Any], Any]


class ListenedDict(dict[str, Any]):
    """Stands in for a module's `_parameters` or `_buffers` while somebody traces it."""

    __slots__ = ("_answer", "original", "users")

    def __init__(self, original: dict[str, Any], answer: Answer) -> None:
        super().__init__(original)
        self._answer = answer
        self.original = original
        self.users = 0

    def __getitem__(self, name: str) -> Any:
        return self._answer(name, super().__getitem__(name))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy made meanwhile is nobody's business

    def hand_back(self) -> dict[str, Any]:
        """Return the original, with what the traced code changed in this one."""
        if list(map(id, self.values())) != list(map(id, self.original.values())) or list(self) != list(self.original):
            self.original.clear()
            self.original.update(self)
        return self.original


@contextmanager
def listened_state(modules: Iterable[nn.Module], answer: Answer) -> Iterator[None]:
    """Let `answer` decide what readers of the parameters and buffers of `modules` get.

    Other threads read through the same dicts; `answer` must give them the value itself. For the same reason it must be
    one function for all who listen.
    """
    taken: list[tuple[dict[str, Any], str, ListenedDict]] = []
    with _lock:
        for module in modules:
            state = vars(module)
            for key in _KEYS:
                held = state.get(key)
                # Those of a ScriptModule are views of something else, and no dict; nobody reads them in a trace.
                if isinstance(held, dict) and held:
                    listened = held if isinstance(held, ListenedDict) else ListenedDict(held, answer)
                    listened.users += 1
                    state[key] = listened
                    taken.append((state, key, listened))
    try:
        yield
    finally:
        with _lock:
            for state, key, listened in taken:
                listened.users -= 1
                if not listened.users and state.get(key) is listened:
                    state[key] = listened.hand_back()
