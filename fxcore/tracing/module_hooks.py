"""Interception of calls of modules, and of reads of their state, in a thread that traces."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeVar

from torch import nn

from fxcore.tracing.patching import Patcher
from fxcore.tracing.recorder import SymbolicValue

_lock = threading.Lock()
_KEYS = ("_parameters", "_buffers")

_F = TypeVar("_F", bound=Callable[..., Any])


def _noting_change(method: _F) -> _F:
    """Return a method of dict that also notes on an `InterceptedDict` that it was changed."""

    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.is_changed = True
        return method(self, *args, **kwargs)

    return change  # type: ignore[return-value]  # same signature as the method


class InterceptedDict(dict[str, Any]):
    """Takes the place of a module's `_parameters` or `_buffers` while the module is traced.

    A subclass defines `__getitem__`, and with it the values that readers get.
    """

    __slots__ = ("is_changed", "original", "users")

    original: dict[str, Any]
    users: int
    is_changed: bool

    __setitem__ = _noting_change(dict.__setitem__)
    __delitem__ = _noting_change(dict.__delitem__)
    __ior__ = _noting_change(dict.__ior__)
    clear = _noting_change(dict.clear)
    pop = _noting_change(dict.pop)
    popitem = _noting_change(dict.popitem)
    setdefault = _noting_change(dict.setdefault)
    update = _noting_change(dict.update)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a copy during the trace is an ordinary dict

    def replaced(self) -> list[str]:
        """Return the names with other values than in the original dict, proxies among them."""
        return [name for name, value in dict.items(self) if self.original.get(name, value) is not value]

    def updated_original(self) -> dict[str, Any]:
        """Return the original dict with the changes that the traced code made in this one, except proxies.

        `self.total += x` leaves a proxy in this dict. The proxy must not stay in the user's module after the trace.
        """
        before = dict(self.original)
        self.original.clear()
        for name in dict.keys(self):
            value = dict.__getitem__(self, name)
            if not isinstance(value, SymbolicValue):
                self.original[name] = value
            elif name in before:
                self.original[name] = before[name]
        return self.original


@contextmanager
def intercepted_state(
    modules: Iterable[nn.Module], kind: type[InterceptedDict]
) -> Iterator[list[tuple[dict[str, Any], str]]]:
    """Let `kind`, a class of dicts, choose the values that readers of the parameters and buffers of `modules` get.

    Other threads read through the same dicts, and must get the value itself. Traces in several threads share the
    dicts, so all of them must use the same `kind`. At the end of the block, the list that it gets holds the dict and
    the name of each parameter and buffer that was replaced.
    """
    replaced: list[tuple[dict[str, Any], str]] = []
    taken: list[tuple[dict[str, Any], str, InterceptedDict]] = []
    with _lock:
        for module in modules:
            state = module.__dict__
            for key in _KEYS:
                held = state.get(key)
                # The tables of a ScriptModule are views and no dicts, and a trace does not read them.
                if held and isinstance(held, dict):
                    if isinstance(held, InterceptedDict):
                        intercepted = held
                        intercepted.users += 1
                    else:
                        intercepted = state[key] = kind(held)
                        intercepted.original, intercepted.users, intercepted.is_changed = held, 1, False
                    taken.append((state, key, intercepted))
    try:
        yield replaced
    finally:
        with _lock:
            for state, key, intercepted in taken:
                intercepted.users -= 1
                if intercepted.is_changed:
                    replaced += [(intercepted.original, name) for name in intercepted.replaced()]
                if not intercepted.users and state.get(key) is intercepted:
                    state[key] = intercepted.updated_original() if intercepted.is_changed else intercepted.original


class _Hooks(NamedTuple):
    """The functions of a trace that handle a call of a module and a read of a module's state."""

    on_call: Callable[..., Any]
    on_read: Callable[[str, Any], Any]
    method: str  # the method of nn.Module that is intercepted; a trace in another thread may intercept another one


class _Stack(threading.local):
    def __init__(self) -> None:
        self.hooks: list[_Hooks] = []
        self.is_suspended = False


_stack = _Stack()


def is_active() -> bool:
    """Return whether a trace intercepts modules in this thread."""
    return bool(_stack.hooks)


def active_tracer() -> Any:
    """Return the tracer that intercepts modules in this thread; None without a tracer, or while it is suspended."""
    hooks = _stack.hooks
    return getattr(hooks[-1].on_read, "__self__", None) if hooks else None


def tracer_of_all_calls() -> Any:
    """Return the active tracer if it records calls without a proxy among their arguments too, else None."""
    tracer = active_tracer()
    return tracer if tracer is not None and tracer.records_without_proxy else None


class _Suspension:
    """A with block of its own class: each recorded call enters one, and a generator takes 4 times as long."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _stack.hooks, _stack.is_suspended
        _stack.is_suspended = _stack.is_suspended or bool(_stack.hooks)
        _stack.hooks = []

    def __exit__(self, *error: object) -> None:
        _stack.hooks, _stack.is_suspended = self._before


def suspended() -> AbstractContextManager[None]:
    """Let modules be called and read as usual in this thread."""
    return _Suspension()


def is_suspended() -> bool:
    """Return whether a trace of this thread is suspended."""
    return _stack.is_suspended


@contextmanager
def intercepted_modules(
    on_call: Callable[[nn.Module, Callable[..., Any], Any, Any], Any],
    on_read: Callable[[str, Any], Any],
    patcher: Patcher,
    modules: Iterable[nn.Module],
    *,
    every_attribute: bool,
    every_call: bool,
) -> Iterator[list[tuple[dict[str, Any], str]]]:
    """Intercept this thread's calls of modules, and its reads of the parameters and buffers of `modules`.

    A call gives `on_call(module, run, args, kwargs)`, where `run(module, *args, **kwargs)` makes the call itself;
    reading gives `on_read(name, value)`. With `every_attribute`, reading submodules and modules that are not listed
    counts too. Without `every_call`, the trace misses calls of modules that torch.compile compiled in place, or whose
    class calls itself in a way of its own. Either option costs time for every class of modules that there is, since a
    special method has to be replaced. The block gets the list of `intercepted_state`.
    """
    method = "__call__" if every_call else "_call_impl"
    patcher.replace(nn.Module, method, functools.partial(_intercepting_call, method))
    if every_attribute:
        patcher.replace(nn.Module, "__getattr__", _intercepting_getattr)
        modules = ()
    patcher.replace(nn.Module, "register_buffer", _intercepting_register_buffer)
    _stack.hooks.append(_Hooks(on_call, on_read, method))
    try:
        with intercepted_state(modules, _TracedState) as replaced:
            yield replaced
    finally:
        _stack.hooks.pop()


def _read(name: str, value: Any) -> Any:
    hooks = _stack.hooks
    return hooks[-1].on_read(name, value) if hooks else value


class _TracedState(InterceptedDict):
    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return _read(name, dict.__getitem__(self, name))


# The replacements of nn.Module's methods. They are cached, because all traces must use the same ones.


@functools.cache
def _intercepting_getattr(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def getattr_of_module(module: nn.Module, name: str) -> Any:
        return _read(name, original(module, name))

    return getattr_of_module


@functools.cache
def _intercepting_register_buffer(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def register_buffer(module: nn.Module, name: str, tensor: Any, *args: Any, **kwargs: Any) -> None:
        original(module, name, tensor, *args, **kwargs)
        _read(name, tensor)

    return register_buffer


@functools.cache
def _intercepting_call(method: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_of_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        hooks = _stack.hooks
        if hooks and (innermost := hooks[-1]).method == method:
            return innermost.on_call(module, original, args, kwargs)
        return original(module, *args, **kwargs)

    return call_of_module
