"""The trace that runs in this thread: it hears of modules and parameters that this thread touches, and no others."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from torch import nn

from fxcore.tracing.patching import Patcher

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


class Trace(Protocol):
    """What hears of calls and attributes of modules."""

    def module_called(self, module: nn.Module, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Answer a call of a module; `run(module, *args, **kwargs)` makes it without telling."""

    def attribute_read(self, name: str, value: Any) -> Any:
        """Answer the reading of a parameter, buffer or submodule."""


class _Stack(threading.local):
    def __init__(self) -> None:
        # Each with the method of nn.Module at which it hears of calls: another thread may listen at another one.
        self.traces: list[tuple[Trace, str]] = []


_stack = _Stack()


def current() -> Trace | None:
    """Return the innermost trace of this thread; None if there is none."""
    return _stack.traces[-1][0] if _stack.traces else None


@contextmanager
def listening(
    trace: Trace, patcher: Patcher, modules: Iterable[nn.Module], *, to_every_attribute: bool, to_every_call: bool
) -> Iterator[None]:
    """Hand calls of modules, and the reading of parameters and buffers of `modules`, in this thread to `trace`.

    With `to_every_attribute`, reading submodules and modules that are not listed counts too. Without `to_every_call`,
    calls are not heard of modules that torch.compile compiled in place or whose class calls itself in a way of its
    own. Either takes time for every class of modules that there is, since a special method has to be replaced.
    """
    method = "__call__" if to_every_call else "_call_impl"
    patcher.replace(nn.Module, method, functools.partial(_listened_call, method))
    if to_every_attribute:
        patcher.replace(nn.Module, "__getattr__", _listened_getattr)
        modules = ()
    patcher.replace(nn.Module, "register_buffer", _listened_register_buffer)
    _stack.traces.append((trace, method))
    try:
        with listened_state(modules, _TracedState):
            yield
    finally:
        _stack.traces.pop()


def _answer(name: str, value: Any) -> Any:
    traces = _stack.traces
    return traces[-1][0].attribute_read(name, value) if traces else value


class _TracedState(ListenedDict):
    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return _answer(name, dict.__getitem__(self, name))


@functools.cache
def _listened_getattr(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def getattr_of_module(module: nn.Module, name: str) -> Any:
        return _answer(name, original(module, name))

    return getattr_of_module


@functools.cache
def _listened_register_buffer(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def register_buffer(module: nn.Module, name: str, tensor: Any, *args: Any, **kwargs: Any) -> None:
        original(module, name, tensor, *args, **kwargs)
        _answer(name, tensor)

    return register_buffer


@functools.cache
def _listened_call(method: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_of_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        traces = _stack.traces
        if not traces or traces[-1][1] != method:
            return original(module, *args, **kwargs)
        return traces[-1][0].module_called(module, original, args, kwargs)

    return call_of_module
