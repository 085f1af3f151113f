"""Names that libraries take from torch.fx's private file of this name: the tracer, and the parts of their own `trace`.

These names are no promise. Some libraries, torch_geometric among them, write their own `Tracer.trace` from these parts.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import time
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch._C import ScriptObject

from fxcore import torch_fx_registry
from fxcore._compatibility import compatibility
from fxcore.errors import ExampleError, FxError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.guards import enforce
from fxcore.guided.diagnosis import name_other_places
from fxcore.guided.leaf_tracer import LeafModules, LeafTracer
from fxcore.guided.trace_verification import refuse_kept_state, verify_trace
from fxcore.node_data.arguments import map_aggregate
from fxcore.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from fxcore.tracer import Tracer
from fxcore.tracing.module_attributes import ATTRIBUTE_TYPES
from fxcore.tracing.patching import Patcher
from fxcore.tracing.placeholders import PH, STARRED, PHBase, PHWithMeta, _assert_is_none, name_of, with_plain_parameters
from fxcore.tracing.wrap import (
    ProxyableClassMeta,
    find_symbolic,
    patch_globals,
    patch_registered,
    proxyable_classes,
    registered_functions,
    registered_methods,
    wrap,
    wrapped_function,
)

__all__ = [
    "PH",
    "FunctionType",
    "Graph",
    "GraphModule",
    "PHBase",
    "PHWithMeta",
    "ParameterProxy",
    "Proxy",
    "ProxyableClassMeta",
    "Scope",
    "ScopeContextManager",
    "ScriptObject",
    "Tracer",
    "TracerBase",
    "_assert_is_none",
    "compatibility",
    "functools",
    "inspect",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "map_aggregate",
    "math",
    "symbolic_trace",
    "torch",
    "wrap",
]


def symbolic_trace(
    root: nn.Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    *,
    example_inputs: Any = None,
    example_kwargs: Mapping[str, Any] | None = None,
    enforce_guards: bool | None = None,
    verify: bool | None = None,
    leaf_modules: LeafModules = (),
    assume: Mapping[str, Any] | None = None,
) -> GraphModule:
    """Trace a module or function and return a GraphModule that computes the same.

    `concrete_args` fixes inputs to values, to remove control flow or nested inputs; see `Tracer.trace`.

    With `example_inputs`, a tuple of positional arguments or one tensor, and `example_kwargs`, every proxy carries the
    value that it has for them. Sizes stay symbolic until Python needs a number; then the graph is specialised, and
    `graph.guards` lists each specialisation. Each run of the graph module checks the guards, and raises GuardError (a
    ValueError) where the graph would not do what the model does; `enforce_guards=False` leaves the checks out.
    `verify` compares eager and graph on the example and on fresh inputs of other sizes. `leaf_modules` are classes and
    paths of modules that become one node each, or "auto" for modules that cannot be traced. `assume` names places,
    "file.py:line", where a branch depends on the contents of tensors and the trace takes the example's branch.

    Raises TraceError and other FxErrors if tracing fails, ExampleError (a TypeError) for an example that does not fit,
    LeafError (a ValueError) for a path without a module, VerificationError if eager and graph differ.
    """
    with gc_paused():
        tracer = LeafTracer(leaf_modules) if leaf_modules else Tracer()
        options: dict[str, Any] = {}
        if example_inputs is not None or example_kwargs:
            options = {"example_inputs": example_inputs, "example_kwargs": example_kwargs, "assume": assume}
        elif verify or enforce_guards or assume:
            raise ExampleError("verify, enforce_guards and assume need an example: give example_inputs=")
        started = time.perf_counter()
        try:
            graph = tracer.trace(root, concrete_args, **options)
        except FxError as error:
            if options and concrete_args is None:
                name_other_places(error, time.perf_counter() - started, root, **options)
            raise
        enforce(graph, enforce_guards)
        made = GraphModule(tracer.root, graph, name_of(root))
    if options:
        tracer.take_back_constants()
    if verify:
        verify_trace(root, made, example_inputs, example_kwargs)
    elif options and verify is None:
        refuse_kept_state(root, made, example_inputs, example_kwargs)
    return made


_orig_module_call = nn.Module.__call__
_orig_module_getattr = nn.Module.__getattr__
_find_proxy = find_symbolic
_create_wrapped_func = wrapped_function
_patch_wrapped_functions = patch_registered
_autowrap_check = patch_globals
_patch_function = with_plain_parameters
_wrapped_fns_to_patch, _wrapped_methods_to_patch = registered_functions, registered_methods
_proxyable_classes = proxyable_classes
HAS_VARSTUFF = STARRED
_constant_attribute_types = ATTRIBUTE_TYPES
_ConstantAttributeType: Any = functools.reduce(operator.or_, ATTRIBUTE_TYPES)


# Libraries read the flag, and set it to False around code that must not be traced.
_is_fx_tracing_flag: Any = torch_fx_registry.TRACING_FLAG


def is_fx_tracing() -> bool:
    """Return whether this thread is tracing."""
    return bool(_is_fx_tracing_flag)


def is_fx_symbolic_tracing() -> bool:
    """Return whether this thread is tracing, and not compiling."""
    return is_fx_tracing() and not torch.compiler.is_compiling()


class _Patcher(Patcher):
    """A `Patcher` that also installs given functions, each on top of the previous function."""

    def __init__(self) -> None:
        super().__init__()
        self._undo: list[Callable[[], Any]] = []

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Put `new_fn` at `name` of a module's globals, unless somebody with `deduplicate` did so already."""
        if name not in frame_dict and hasattr(builtins, name):
            self._undo.append(lambda: frame_dict.pop(name, None))
        else:
            original = frame_dict[name]
            if getattr(original, "__fx_already_patched", False):
                return
            self._undo.append(lambda: frame_dict.__setitem__(name, original))
        setattr(new_fn, "__fx_already_patched", deduplicate)
        frame_dict[name] = new_fn

    def patch_method(self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
        """Put `new_fn` at `name` of a class, unless somebody with `deduplicate` did so already."""
        original = getattr(cls, name)
        if getattr(original, "__fx_already_patched", False):
            return
        self._undo.append(lambda: setattr(cls, name, original))
        setattr(new_fn, "__fx_already_patched", deduplicate)
        setattr(cls, name, new_fn)

    def __exit__(self, *error: object) -> None:
        while self._undo:
            self._undo.pop()()
        super().__exit__(*error)
