"""`with torch.autocast(...)` and `with torch.no_grad()`: nodes of the graph switch these modes.

Without the nodes, the graph computes in another precision than the model, or has gradients where the model stops them.
A mode that makes no difference to the operations inside it becomes no node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.amp import autocast_mode

from fxcore.node import Node
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import Patcher

_MARK = "_fxcore_recorded"  # on the user's context manager, between its begin and its end


def patch_modes(patcher: Patcher) -> None:
    """Let the trace of `patcher`, which has an example, record these modes."""
    patcher.replace(torch.autocast, "__enter__", _recorded_begin_of_autocast)
    patcher.replace(torch.autocast, "__exit__", _recorded_end_of_autocast)
    patcher.replace(torch.no_grad, "__enter__", _noted_begin_of_no_grad)
    patcher.replace(torch.no_grad, "__exit__", _recorded_end_of_no_grad)
    for kind in (torch.enable_grad, torch.set_grad_enabled, torch.inference_mode):
        patcher.replace(kind, "__enter__", _counted_begin)
        patcher.replace(kind, "__exit__", _counted_end)


def _count(mode: str, change: int) -> None:
    """Count the blocks of the traced code that hold a mode: questions about it make no guards there."""
    tracer = module_hooks.tracer_of_all_calls()
    if tracer is not None:
        tracer.answers.switched[mode] += change


@functools.cache
def _counted_begin(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def begin(self: Any) -> Any:
        _count("grad", 1)
        return original(self)

    return begin


@functools.cache
def _counted_end(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any, *error: Any) -> Any:
        _count("grad", -1)
        return original(self, *error)

    return end


@functools.cache
def _recorded_begin_of_autocast(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def begin(self: Any) -> Any:
        _count("autocast", 1)
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is None or not (self._enabled or torch.is_autocast_enabled(self.device)):
            return original(self)
        options = (self.device, self.fast_dtype, self._enabled, self._cache_enabled)
        vars(self)[_MARK] = tracer.create_proxy("call_function", autocast_mode._enter_autocast, options, {})
        return self

    return begin


@functools.cache
def _recorded_end_of_autocast(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any, *error: Any) -> Any:
        _count("autocast", -1)
        begun = vars(self).pop(_MARK, None)
        if begun is None:
            return original(self, *error)
        begun.tracer.create_proxy("call_function", autocast_mode._exit_autocast, (begun,), {})
        return None

    return end


@functools.cache
def _noted_begin_of_no_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def begin(self: Any) -> Any:
        _count("grad", 1)
        tracer = module_hooks.tracer_of_all_calls()
        if tracer is not None and torch.is_grad_enabled():
            vars(self)[_MARK] = (tracer, next(iter(reversed(tracer.graph.nodes)), None))
        return original(self)

    return begin


@functools.cache
def _recorded_end_of_no_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def end(self: Any, *error: Any) -> Any:
        _count("grad", -1)
        tracer, last = vars(self).pop(_MARK, (None, None))
        if tracer is not None and tracer is module_hooks.active_tracer():
            made = _nodes_after(tracer.graph, last)
            if any(tracer.has_gradient(each) for node in made for each in (node, *node.all_input_nodes)):
                with tracer.graph.inserting_before(made[0]):
                    tracer.create_node("call_function", torch._C._set_grad_enabled, (False,), {})
                tracer.create_node("call_function", torch._C._set_grad_enabled, (True,), {})
        return original(self, *error)

    return end


def _nodes_after(graph: Any, last: Node | None) -> list[Node]:
    made: list[Node] = []
    for node in reversed(graph.nodes):
        if node is last:
            break
        if node.op != "placeholder":  # an inner graph gets inputs while it is recorded
            made.append(node)
    return made[::-1]
