"""Calls of modules in a trace with an example: one node, or the operations inside; with hooks and replaced state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from fxcore.errors import TraceError
from fxcore.guided.proxies import VALUE_PROXIES, ExampleTensor
from fxcore.tracer import Tracer
from fxcore.tracing.call_site import user_line
from fxcore.tracing.patching import REPLACEMENTS

_PROXIES = frozenset({ExampleTensor}) | VALUE_PROXIES
_PROXIES_AND_TENSORS = _PROXIES | {torch.Tensor}
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_OF_ALL_MODULES = vars(nn.modules.module)


def is_one_call(tracer: Any, module: nn.Module, path: str, *, is_leaf: bool) -> bool:
    """Return whether a call of a module becomes one node. `is_leaf` is the tracer's own answer.

    A leaf of torch.nn becomes its operations if the traced code replaced its state by values of the graph, or if a
    value that its hooks kept is used. Raises TraceError for a leaf of the user with replaced state, and for a module
    with backward hooks that is no leaf.
    """
    if not is_leaf:
        _refuse_backward_hooks(module, path)
        return False
    is_default = Tracer.is_leaf_module(tracer, module, path)
    if is_default and path in tracer.ways.opened:
        _refuse_backward_hooks(module, path)
        return False
    held = "" if isinstance(module, torch.jit.ScriptModule) else _computed_attribute(module)
    if not held:
        return True
    if not is_default:
        raise TraceError(
            f"cannot record the leaf {path!r} as one call: its attribute {held!r} holds a value of the graph, and the "
            f"call would leave the value out; at {user_line()}\nPass the value as an argument of its forward, or trace "
            "through the module"
        )
    _refuse_backward_hooks(module, path)
    return False


def _computed_attribute(module: nn.Module) -> str:
    """Return the path of an attribute of a module, or of a module below it, that the traced code computed, or ""."""
    for path, each in module.named_modules() if module._modules else (("", module),):
        attributes = vars(each)
        tables = ((attributes, _PROXIES), (each._parameters, _PROXIES_AND_TENSORS), (each._buffers, _PROXIES))
        for table, kinds in tables:
            if not kinds.isdisjoint(map(type, dict.values(table))):
                name = next(name for name, value in dict.items(table) if type(value) in kinds)
                return f"{path}.{name}" if path else name
    return ""


def _refuse_backward_hooks(module: nn.Module, path: str) -> None:
    own = any(getattr(module, name, None) for name in _BACKWARD_HOOKS)
    if not own and not any(_OF_ALL_MODULES[f"_global{name}"] for name in _BACKWARD_HOOKS):
        return
    owner = f"the module {path!r} ({type(module).__name__})" if own else "each module"
    raise TraceError(
        f"cannot trace through backward hooks: {owner} has one, and a graph of the module's operations would compute "
        f"other gradients\nRemove the hook before the trace and register it on the GraphModule, or keep the module as "
        f"one call with leaf_modules=[{path!r}]"
    )


def has_forward_hooks(module: nn.Module) -> bool:
    """Return whether hooks run at a call of a module, or of a module below it."""
    if any(_OF_ALL_MODULES[f"_global{name}"] for name in _FORWARD_HOOKS):
        return True
    modules = module.modules() if module._modules else (module,)
    return any(each._forward_hooks or each._forward_pre_hooks for each in modules)


def run_root(root: nn.Module, forward: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Run the forward of the root, given as a function that takes its arguments, and its hooks, as a call does."""
    _refuse_backward_hooks(root, "")
    if not (root._forward_hooks or root._forward_pre_hooks):
        return forward(*args, **kwargs)
    takes_root = bool(args) and args[0] is root  # a forward of the instance does not
    before = vars(root).get("forward")
    vars(root)["forward"] = functools.partial(forward, root) if takes_root else forward
    try:
        return REPLACEMENTS.original(nn.Module, "_call_impl")(root, *args[takes_root:], **kwargs)
    finally:
        if before is None:
            del vars(root)["forward"]
        else:
            vars(root)["forward"] = before


@contextmanager
def watched_hooks(tracer: Any) -> Iterator[None]:
    """Let hooks of all modules run, and refuse a hook that changes what a module computes.

    A run of the graph calls the hooks for the modules that the graph still calls, and for no others.
    """
    held: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    for name in _FORWARD_HOOKS:
        hooks = _OF_ALL_MODULES[f"_global{name}"]
        if hooks:
            held.append((hooks, dict(hooks)))
            hooks.update({key: _watched(tracer, hook) for key, hook in hooks.items()})
    try:
        yield
    finally:
        for hooks, before in held:
            hooks.clear()
            hooks.update(before)


def _watched(tracer: Any, hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def look(*args: Any) -> Any:
        before = len(tracer.graph.nodes)
        result = hook(*args)
        if result is not None or len(tracer.graph.nodes) != before:
            raise TraceError(
                f"cannot trace with a hook of all modules that computes: {getattr(hook, '__qualname__', hook)} was "
                "registered with register_module_forward_hook or register_module_forward_pre_hook, and the graph "
                "would keep its operations after the hook is removed\nRemove it while tracing, or register it on the "
                "modules themselves"
            )
        return result

    return look
