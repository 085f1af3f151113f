"""Functions that tracing records as one call instead of looking inside: `wrap`."""

from __future__ import annotations

import builtins
import functools
import operator
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from fxcore import torch_fx_registry
from fxcore.errors import WrapError, WrapPlaceError
from fxcore.tracing import module_hooks
from fxcore.tracing.patching import REPLACEMENTS, Patcher
from fxcore.tracing.recorder import SymbolicValue

_T = TypeVar("_T")

# (id of a module's globals, name in them) -> the globals. Libraries add to this dict and to the list below.
registered_functions: dict[tuple[int, str], dict[str, Any]] = {}
# Class and name of methods that are recorded as calls.
registered_methods: list[tuple[type, str]] = []


def wrap(fn_or_name: _T) -> _T:
    """Register a function of the calling module as a leaf: a call of it on traced values becomes one node.

    Takes the function (also as decorator) or its name, at the top level of a module, and returns its argument. Raises
    WrapError (a RuntimeError) for anything else and WrapPlaceError (a NotImplementedError) elsewhere.
    """
    if callable(fn_or_name):
        name = getattr(fn_or_name, "__name__", "")
    elif isinstance(fn_or_name, str):
        name = fn_or_name
    else:
        raise WrapError(
            "Unsupported type for global function! Must be either a callable or string name, got "
            f"{type(fn_or_name).__name__}"
        )
    caller = sys._getframe(1)
    if caller.f_code.co_name != "<module>":
        raise WrapPlaceError(
            f"wrap must be called at the top level of a module, and this call for {name!r} is in "
            f"{caller.f_code.co_name!r} ({caller.f_code.co_filename}:{caller.f_lineno}); call it where the function "
            "is defined or imported, so that it holds for every trace"
        )
    registered_functions[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def find_symbolic(value: Any) -> SymbolicValue | None:
    """Return a proxy from nested arguments, the last one if there are several; None without a proxy."""
    if isinstance(value, SymbolicValue):
        return value
    if isinstance(value, dict):
        value = tuple(value.values())
    elif isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    if isinstance(value, (tuple, list)):
        for item in reversed(value):
            found = find_symbolic(item)
            if found is not None:
                return found
    return None


@functools.lru_cache(maxsize=1024)
def wrapped_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` as one that becomes a node when called on a proxy, and runs as usual otherwise."""

    def record(tracer: Any, args: Any, kwargs: Any) -> Any:
        proxy = tracer.create_proxy("call_function", function, args, kwargs)
        # A trace with an example returns plain values, such as None, as they are.
        node = proxy.node if isinstance(proxy, SymbolicValue) else next(reversed(tracer.graph.nodes))
        node.meta["is_wrapped"] = True
        return proxy

    return called_on_proxies(function, record)


def recorded(function: Callable[..., Any], kind: str = "call_function", target: Any = None) -> Callable[..., Any]:
    """Return `function` as one that records a call of `target` when called on a proxy, and runs as usual otherwise."""
    called = function if target is None else target
    return called_on_proxies(function, lambda tracer, *given: tracer.create_proxy(kind, called, *given))


def called_on_proxies(function: Callable[..., Any], record: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    """Return `function` as one that calls `record(tracer, args, kwargs)` for a proxy, and runs as usual otherwise."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = find_symbolic((args, kwargs))
        return function(*args, **kwargs) if found is None else record(found.tracer, args, kwargs)

    return call


def handled_by(record: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a maker of replacements: in a trace with an example, `record(tracer, original, *args)` handles a call."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            tracer = module_hooks.tracer_of_all_calls()
            return original(*args, **kwargs) if tracer is None else record(tracer, original, *args, **kwargs)

        return call

    return make


def patch_registered(patcher: Patcher) -> None:
    """Let the patcher's trace record calls of every registered function, including torch.fx's registrations."""
    for (_, name), names in [*registered_functions.items(), *torch_fx_registry.wrapped_functions().copy().items()]:
        if name in names or hasattr(builtins, name):
            patcher.replace(names, name, wrapped_function)
    for cls, name in dict.fromkeys([*registered_methods, *torch_fx_registry.wrapped_methods()]):
        patcher.replace(cls, name, functools.partial(recorded, kind="call_method", target=name))


def patch_globals(patcher: Patcher, names: dict[str, Any], function_ids: set[int]) -> None:
    """Let the trace record calls of functions in `names`, a module's globals, if their ids are in `function_ids`."""
    if not patcher.visit_once(names):
        return
    originals = REPLACEMENTS.originals_of(names)
    if function_ids.isdisjoint(map(id, list(originals.values()))):
        return
    known = {
        name: wrapped_function(value)
        for name, value in list(originals.items())
        if id(value) in function_ids and not name.startswith("_") and callable(value)
    }
    if known:
        patcher.replace_all(names, known)


class _PublicFunctions(NamedTuple):
    """The public functions of a module at the last look at it."""

    names: list[str]
    values: list[Any]
    ids: frozenset[int]
    wrapped: dict[str, Callable[..., Any]]

    def are_of(self, names: dict[str, Any]) -> bool:
        return self.names == list(names) and all(map(operator.is_, self.values, names.values()))


_public_functions: weakref.WeakKeyDictionary[ModuleType, _PublicFunctions] = weakref.WeakKeyDictionary()


def _public_functions_of(module: ModuleType) -> _PublicFunctions:
    names = REPLACEMENTS.originals_of(vars(module))
    found = _public_functions.get(module)
    if found is None or not found.are_of(names):
        public = {name: value for name, value in names.items() if not name.startswith("_") and callable(value)}
        wrapped = {name: wrapped_function(value) for name, value in public.items()}
        found = _PublicFunctions(list(names), list(names.values()), frozenset(map(id, public.values())), wrapped)
        _public_functions[module] = found
    return found


def ids_of_functions(module: ModuleType) -> frozenset[int]:
    """Return the ids of the public functions of a module."""
    return _public_functions_of(module).ids


def patch_module(patcher: Patcher, module: ModuleType, function_ids: set[int]) -> None:
    """Let the trace record calls of a module's functions if their ids are in `function_ids`."""
    public = _public_functions_of(module)
    if not public.ids <= function_ids:
        patch_globals(patcher, vars(module), function_ids)
    elif public.wrapped and patcher.visit_once(vars(module)):
        patcher.replace_all(vars(module), public.wrapped)


# Classes with the metaclass below, in the order of definition. Their instances may be constants of a graph.
proxyable_classes: dict[type, None] = {}


class ProxyableClassMeta(type):
    """Metaclass of a class with instances that, made from traced values, become a call of the class in the graph."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        proxyable_classes[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if module_hooks.is_active():
            found = find_symbolic((args, kwargs))
            if found is not None:
                return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)
