"""Parameters and buffers of modules, read through a dict that tells who traces in this thread.

`nn.Module.__getattr__` could be replaced instead, as torch.fx does. But it is a special method: Python then goes
through every class of modules that there is, twice a trace, which takes longer than tracing a small model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import nn

_lock = threading.Lock()
_KEYS = ("_parameters", "_buffers")

_F = TypeVar("_F", bound=Callable[..., Any])


def _noted(method: _F) -> _F:
    """Return a method of dict that changes it as one of `ListenedDict`, which then knows that it was changed."""

    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.is_changed = True
        return method(self, *args, **kwargs)

    return change  # type: ignore[return-value]  # takes and returns what the method does


class ListenedDict(dict[str, Any]):
    """Stands in for a module's `_parameters` or `_buffers` while somebody traces it.

    A subclass says, in `__getitem__`, what readers get.
    """

    __slots__ = ("is_changed", "original", "users")

    original: dict[str, Any]
    users: int
    is_changed: bool

    __setitem__ = _noted(dict.__setitem__)
    __delitem__ = _noted(dict.__delitem__)
    __ior__ = _noted(dict.__ior__)
    clear = _noted(dict.clear)
    pop = _noted(dict.pop)
    popitem = _noted(dict.popitem)
    setdefault = _noted(dict.setdefault)
    update = _noted(dict.update)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy made meanwhile is nobody's business

    def hand_back(self) -> dict[str, Any]:
        """Return the original, with what the traced code changed in this one."""
        if self.is_changed:
            self.original.clear()
            self.original.update(self)
        return self.original


@contextmanager
def listened_state(modules: Iterable[nn.Module], kind: type[ListenedDict]) -> Iterator[None]:
    """Let `kind`, a class of dicts, say what readers of the parameters and buffers of `modules` get.

    Other threads read through the same dicts; they must get the value itself. For the same reason it must be one class
    for all who listen.
    """
    taken: list[tuple[dict[str, Any], str, ListenedDict]] = []
    with _lock:
        for module in modules:
            state = module.__dict__
            for key in _KEYS:
                held = state.get(key)
                # Those of a ScriptModule are views of something else, and no dict; nobody reads them in a trace.
                if held and isinstance(held, dict):
                    if isinstance(held, ListenedDict):
                        listened = held
                        listened.users += 1
                    else:
                        listened = state[key] = kind(held)
                        listened.original, listened.users, listened.is_changed = held, 1, False
                    taken.append((state, key, listened))
    try:
        yield
    finally:
        with _lock:
            for state, key, listened in taken:
                listened.users -= 1
                if not listened.users and state.get(key) is listened:
                    state[key] = listened.hand_back()
