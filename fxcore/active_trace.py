"""The trace that runs in this thread: it hears of modules and parameters that this thread touches, and no others."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import nn

from fxcore.patching import Patcher


class Trace(Protocol):
    """What hears of calls and attributes of modules."""

    def module_called(self, module: nn.Module, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Answer a call of a module; `run` calls it without telling."""

    def attribute_read(self, name: str, value: Any) -> Any:
        """Answer the reading of a parameter, buffer or submodule."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []


_stack = _Stack()


def current() -> Trace | None:
    """Return the innermost trace of this thread; None if there is none."""
    return _stack.traces[-1] if _stack.traces else None


@contextmanager
def listening(trace: Trace, patcher: Patcher) -> Iterator[None]:
    """Hand calls and attributes of modules in this thread to `trace`."""
    patcher.replace(nn.Module, "__getattr__", _listened_getattr)
    patcher.replace(nn.Module, "__call__", _listened_call)
    _stack.traces.append(trace)
    try:
        yield
    finally:
        _stack.traces.pop()


def _listened_getattr(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def getattr_of_module(module: nn.Module, name: str) -> Any:
        value = original(module, name)
        traces = _stack.traces
        return traces[-1].attribute_read(name, value) if traces else value

    return getattr_of_module


def _listened_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_of_module(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        traces = _stack.traces
        if not traces:
            return original(module, *args, **kwargs)
        return traces[-1].module_called(module, functools.partial(original, module), args, kwargs)

    return call_of_module
