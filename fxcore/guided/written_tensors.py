"""Tensors without a proxy that the traced code writes values of the graph into: its own, or plain attributes.

`t = torch.zeros(3); t[0] = x.sum(); return t * 2` has a proxy in one call alone. `t` is a tensor, and later calls would
compute with its contents of the trace. After the first write, a proxy stands for the tensor, and for all tensors that
share its memory, in every call of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxcore.errors import TraceError
from fxcore.guided.proxies import ExampleProxy
from fxcore.operators.effects import effects_of, function_effects
from fxcore.operators.table import facts_of_name
from fxcore.state.storage import ORDINARY, storage_of
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import frames_from_here

# Methods that ask about the tensor object or its memory; `__set__` assigns an attribute.
_OF_THE_OBJECT = frozenset(
    {
        *("__len__", "__hash__", "__repr__", "__format__", "__set__"),
        *("untyped_storage", "data_ptr", "register_hook"),
    }
)


class WrittenTensors:
    """The tensors of one trace that are no proxies and that a recorded call has written, each with its proxy."""

    def __init__(self, tracer: Any, proxy_of: Callable[[Any, torch.Tensor], ExampleProxy]) -> None:
        """`proxy_of` makes the proxy of a node that reads a tensor from the model."""
        self._tracer, self._proxy_of = tracer, proxy_of
        self._whole: dict[int, tuple[torch.Tensor, Any]] = {}  # by memory: the tensor with all of it, and its proxy
        self._parts: dict[int, tuple[torch.Tensor, Any]] = {}  # by identity: each known tensor that shares it
        self._mode: _Redirection | None = None
        self._outer_modes = _count_of_modes()
        self.is_paused = False

    def arguments(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a call to record, with proxies for tensors that recorded calls write."""
        for tensor in _written(kind, target, args, kwargs):
            with self._paused():
                self._tracer.operators.note_write(tensor)
                self._replace(tensor)
        if not self._is_needed():
            return args, kwargs
        return self.redirected(args), self.redirected(kwargs)

    def redirected(self, value: Any) -> Any:
        """Return a value with proxies in the place of tensors that were written."""
        if self.is_paused or not self._is_needed():
            return value
        with self._paused():
            return self._redirected(value)

    def begin(self) -> None:
        """Redirect torch's calls from the start of the trace if it lifts state."""
        if self._tracer.ways.lifted:
            self._redirect()

    def _is_needed(self) -> bool:
        return bool(self._whole or self._tracer.ways.lifted)

    def _redirect(self) -> None:
        if self._mode is None:
            self._mode = _Redirection(self)
            self._mode.__enter__()  # type: ignore[no-untyped-call]  # torch's

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Look at tensors without redirection."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def _redirected(self, value: Any) -> Any:
        kind = type(value)
        if kind in (tuple, list):
            return kind([self._redirected(item) for item in value])
        if kind is dict:
            return {key: self._redirected(item) for key, item in value.items()}
        if kind not in ORDINARY:
            return value
        memory = _memory_of(value)
        if memory not in self._whole:
            if not self._tracer.operators.is_lifted(value):
                return value
            self._replace(value)
        if id(value) not in self._parts:
            self._parts[id(value)] = (value, self._part(value, *self._whole[memory]))
        return self._parts[id(value)][1]

    def is_written_by(self, tensor: torch.Tensor, example: torch.Tensor) -> bool:
        """Return whether an example's value belongs to the proxy that stands for a tensor."""
        return id(tensor) in self._parts and self._parts[id(tensor)][1].example is example

    def close(self) -> None:
        """Stop redirecting torch's calls."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # torch's

    def _replace(self, tensor: torch.Tensor) -> None:
        memory = _memory_of(tensor)
        if tensor.layout is not torch.strided:
            raise TraceError(
                f"a sparse tensor without a proxy is written{self._tracer._place()}, and later calls that read it "
                "cannot be told\nWrite into a dense tensor, or make the sparse tensor from an input"
            )
        if memory == 0 or memory in self._whole:
            return
        if self._mode is None and _count_of_modes() != self._outer_modes:
            raise TraceError(
                f"a tensor that the traced code made is written{self._tracer._place()}, inside a torch function mode "
                "(`with torch.device(...)` is one), where the write cannot be followed\n"
                "Make the tensor from an input (x.new_zeros(...)), or write it outside of the mode"
            )
        state = self._tracer.operators.tensor_of_state(memory)
        whole = state if state is not None else tensor if tensor._base is None else tensor._base
        proxy = self._tracer._on_attribute_read("", whole)
        if proxy is whole:  # no parameter and no buffer
            node = self._tracer.create_arg(whole)
            # The model's tensors are written in each run. A tensor that the code made is made anew.
            proxy = self._proxy_of(node, whole if state is not None else whole.detach().clone())
            if state is None and node.meta.get("is_lifted"):
                proxy = self._tracer.create_proxy("call_method", "clone", (proxy,), {})
        self._whole[memory] = (whole, proxy)
        self._parts[id(whole)] = (whole, proxy)
        self._redirect()

    def _part(self, tensor: torch.Tensor, whole: torch.Tensor, proxy: Any) -> Any:
        """Return a proxy for a tensor that shares the memory of another."""
        if proxy.example.stride() != whole.stride():
            raise TraceError(
                f"a part of a tensor is used{self._tracer._place()} that was written by the traced code, and whose "
                "memory is laid out in a way that the graph cannot repeat; make it contiguous() before it is written"
            )
        offset = tensor.storage_offset() - whole.storage_offset()
        return self._tracer.create_proxy(
            "call_method", "as_strided", (proxy, tuple(tensor.shape), tensor.stride(), offset), {}
        )


class _Redirection(TorchFunctionMode):
    """Sees every call of torch, and puts proxies in the place of tensors that were written."""

    def __init__(self, written: WrittenTensors) -> None:
        super().__init__()
        self._written = written

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _asks_for_facts(func):
            return func(*args, **kwargs)
        if module_hooks.active_tracer() is self._written._tracer:
            args, kwargs = self._written.redirected(args), self._written.redirected(kwargs)
        return func(*args, **kwargs)


def _written(kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors, no proxies and no parameters, that a call writes."""
    found = effects_of(kind, target).written(args, kwargs)
    while found:
        value = found.pop(0)
        if type(value) in (tuple, list):
            found = [*value, *found]
        elif type(value) in ORDINARY:
            yield value


def _asks_for_facts(function: Any) -> bool:
    """Return whether a function reads facts of a tensor beside its contents. They stay those of the tensor itself."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        return "view" not in facts_of_name(f"Tensor.{getattr(function.__self__, '__name__', '')}")
    return name in _OF_THE_OBJECT or function_effects(function, None).asks


def _memory_of(tensor: torch.Tensor) -> int:
    try:
        return storage_of(tensor)
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors have no storage
        return 0


def _count_of_modes() -> int:
    """Return the number of torch function modes that are on. torch takes a mode off while its handler runs."""
    handlers = [frame for frame in frames_from_here() if frame.f_code.co_name == "__torch_function__"]
    running = [frame for frame in handlers if isinstance(frame.f_locals.get("self"), TorchFunctionMode)]
    return int(torch._C._len_torch_function_stack()) + len(running)
