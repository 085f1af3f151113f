"""Symbolic tracing: runs a module's Python on proxies, and records every operation on them."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from types import FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from fxcore import torch_fx_registry
from fxcore.errors import ModuleLookupError, TraceError
from fxcore.graph import Graph, gc_paused
from fxcore.graph_module import GraphModule
from fxcore.guards import Guards, take_guards
from fxcore.node import Argument, Node, Target
from fxcore.node_data.module_stack import nested_call
from fxcore.proxy import ParameterProxy, Proxy, TracerBase
from fxcore.seams import Seam
from fxcore.serialization.pickling import RETRACE, CodeOnlyModule
from fxcore.tracing import module_hooks, placeholders, recorded_functions, refused_calls
from fxcore.tracing.call_site import user_line
from fxcore.tracing.collectives import FUNCTIONAL, patch_collectives
from fxcore.tracing.fast_recording import FastRecording, fast_recording
from fxcore.tracing.module_attributes import (
    AttributePaths,
    constant_prefix,
    constants_of_layers,
    is_kept_as_attribute,
    module_paths_and_constants,
)
from fxcore.tracing.patching import Patcher
from fxcore.tracing.placeholders import RootArguments
from fxcore.tracing.recorder import CONSTANT_TYPES, Scope, SymbolicValue
from fxcore.tracing.wrap import (
    ids_of_functions,
    patch_globals,
    patch_module,
    patch_registered,
    proxyable_classes,
)
from fxcore.uninitialized import refuse_uninitialized

__all__ = ["Tracer"]

# The trace with an example: it takes the tracer, the arguments of `trace`, and the example.
TRACE_WITH_EXAMPLE: Seam[..., Graph] = Seam()

# `create_proxy` does the work of these methods at once where they are not overridden,
_RECORDING_METHODS = ("create_arg", "create_node", "proxy")
# and a leaf is recorded without any of these.
_MODULE_METHODS = ("call_module", "create_proxy", "is_leaf_module", "path_of_module", "_is_one_call")

# Containers that a Tracer treats as TracerBase does.
_ORDINARY_CONTAINERS = frozenset({list, dict, slice})


class Tracer(TracerBase):
    """Records the operations of a module, or of a function, on its inputs.

    Override `is_leaf_module` to choose the modules that are recorded as one call. Override `call_module`, `create_arg`,
    `create_node`, `create_proxy`, `proxy`, `iter`, `to_bool` and `keys` to change the recording.
    """

    # The functions that record fast, and the classes of modules that are recorded without `call_module`; see
    # `allow_fast_recording`.
    _fast: FastRecording | None = None
    _leaf_kinds: frozenset[type] | set[type] = frozenset()
    # The classes that `is_leaf_module` was asked for without being overridden, and that are no leaves.
    _traced_kinds: frozenset[type] | set[type] = frozenset()

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        """Make a tracer that records calls of `autowrap_functions` and of public functions of `autowrap_modules`.

        With `param_shapes_constant`, shapes of parameters are known while tracing.
        """
        super().__init__()
        self._autowrap_function_ids: set[int] = {id(function) for function in autowrap_functions}
        for module in autowrap_modules:
            self._autowrap_function_ids |= ids_of_functions(module)
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}
        self._unsearched: dict[type[nn.Module], int] = {}  # see `constants_of_layers`
        self._next_number: dict[str, int] = {}
        self._lifted_paths: set[str] = set()  # paths of constants that belong to no module
        self._parameter_proxies: dict[str, Any] = {}

    @functools.cached_property
    def _attribute_paths(self) -> AttributePaths:
        # trace() makes the paths. A library that sets `root` and `graph` itself gets them here.
        return AttributePaths(self.root)

    # Methods that users override.

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module becomes one node. By default the modules of torch.nn do, except nn.Sequential."""
        return m.__module__.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record a call of a module if it is a leaf, else return the result of `forward(*args, **kwargs)`."""
        path = self.path_of_module(m)
        given = m, path, forward, args, kwargs
        return self._inside(path, type(m), self._current_call(), self._record_or_run, given, {})

    def _record_or_run(
        self, m: nn.Module, path: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._is_one_call(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        if isinstance(m, LazyModuleMixin):
            refuse_uninitialized(m, path, f"cannot look inside, at {user_line()},", TraceError)
        return forward(*args, **kwargs)

    def _inside(self, path: str, kind: Any, outer: Any, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return `run(*args, **kwargs)`, with the module of class `kind` at `path` as the place of new nodes.

        The call of the module is made inside `outer`, a `ModuleCall` or None.
        """
        count = self.num_calls.get(path, 0)
        self.num_calls[path] = count + 1
        key, place = f"{path}@{count}" if count else path, (path, kind)
        scope, stack = self.scope, self.module_stack
        outer_path, outer_type = scope.module_path, scope.module_type
        scope.module_path, scope.module_type = stack[key] = place
        self._module_call = nested_call(outer, key, place)
        try:
            return run(*args, **kwargs)
        finally:
            stack.pop(key, None)
            self._module_call = outer
            scope.module_path, scope.module_type = outer_path, outer_type

    def _is_one_call(self, m: nn.Module, path: str) -> bool:
        return self.is_leaf_module(m, path)

    def _install(self, prefix: str, value: Any) -> str:
        """Keep a value on the root, under a name of ours."""
        path = self.get_fresh_qualname(prefix)
        self._lifted_paths.add(path)
        setattr(self.root, path, value)
        return path

    def take_back_constants(self) -> None:
        """Remove the constants of the last trace from the root. A GraphModule that was made of the graph has them."""
        for path in self._lifted_paths:
            if hasattr(self.root, path):
                delattr(self.root, path)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return the value of a module's attribute that is read: a proxy for a parameter, else the value itself.

        With `proxy_buffer_attributes`, for a buffer too.
        """
        if isinstance(attr_val, nn.Parameter):
            path = self._attribute_paths.parameter(attr_val)
        elif isinstance(attr_val, torch.Tensor) and self.proxy_buffer_attributes:
            path = self._attribute_paths.buffer(attr_val)
        else:
            return attr_val
        if path is None:
            return attr_val
        if path not in parameter_proxy_cache:
            parameter_proxy_cache[path] = self._proxy_of_state(path, attr_val)
        return parameter_proxy_cache[path]

    def _proxy_of_state(self, path: str, value: Any) -> Any:
        if not self.param_shapes_constant or not isinstance(value, nn.Parameter):
            return self.create_proxy("get_attr", path, (), {})
        if "proxy_factory_fn" not in inspect.signature(self.create_proxy).parameters:
            return self.create_proxy("get_attr", path, (), {})
        return self.create_proxy(
            "get_attr", path, (), {}, proxy_factory_fn=lambda node: ParameterProxy(self, node, path, value)
        )

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Any] | None = None,
    ) -> Any:
        """Record a call on values and proxies, and return the proxy for its result."""
        if self._fast is not None and type_expr is None and proxy_factory_fn is None:
            return self._fast[0](kind, target, args, kwargs, name)
        return super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)

    def allow_fast_recording(self, is_allowed: bool) -> None:
        """Let `create_proxy` record in fewer steps from now on if the result is the same, or never.

        The result differs if a method that the fast way skips is overridden, if the graph is of another class, or if
        stack traces are recorded or mutations checked.
        """
        graph = self.graph
        is_plain = (
            is_allowed
            and type(graph) is Graph
            and "create_node" not in vars(graph)
            and not (self.record_stack_traces or self.check_mutable_operations)
            and not self._overrides_any(_RECORDING_METHODS)
        )
        is_own = is_plain and not self._overrides_any(_MODULE_METHODS)
        general = TracerBase.create_proxy
        self._leaf_kinds, self._traced_kinds = (set(), set()) if is_own else (frozenset(), frozenset())
        self._fast = fast_recording(self, Proxy, general, has_own_calls=is_own) if is_plain else None

    def _overrides_any(self, names: tuple[str, ...]) -> bool:
        is_in_class = any(getattr(type(self), name) is not getattr(Tracer, name) for name in names)
        return is_in_class or not vars(self).keys().isdisjoint(names)

    def create_arg(self, a: Any) -> Argument:
        """Return the argument of a node that stands for `a`.

        As `TracerBase.create_arg`, and: parameters, buffers, submodules and constant tensors become `get_attr` nodes. A
        tensor without a module is kept on the root as `_tensor_constant0`, `1` and so on.
        """
        kind = type(a)
        if kind is Proxy:
            return a.node
        if kind in CONSTANT_TYPES:
            return a
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        if kind in _ORDINARY_CONTAINERS:
            return super().create_arg(a)
        if isinstance(a, SymbolicValue):  # before its class is asked for: it may say that it is a tensor
            return a.node
        if isinstance(a, (torch.Tensor, nn.Module)):
            path = self._path_of(a)
            if path is not None:
                return self.create_node("get_attr", path, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple([self.create_arg(item) for item in a])
            return self.create_node("call_function", kind, items, {})
        if is_kept_as_attribute(a):
            node = self.create_node("get_attr", self._path_of_constant(a), (), {})
            if isinstance(a, torch.Tensor):
                node.meta["is_constant"] = True  # a GraphModule keeps it as a buffer, like others
            if node.target in self._lifted_paths:
                node.meta["is_lifted"] = True  # its name is ours, not the user's
            return node
        if kind in proxyable_classes:
            return self.create_node("get_attr", self._install(f"_{kind.__name__}_constant_", a), (), {})
        return super().create_arg(a)

    def _path_of(self, value: torch.Tensor | nn.Module) -> str | None:
        if isinstance(value, nn.Parameter):
            path = self._attribute_paths.parameter(value)
            if path is None:
                raise ModuleLookupError(
                    f"parameter is not a member of this module: one of shape {list(value.shape)} was used"
                    f"{self._place()}, and {type(self.root).__name__} does not have it; register it on the module, or "
                    "pass it as an input"
                )
            return path
        if isinstance(value, torch.Tensor):
            return self._attribute_paths.buffer(value)
        paths = self.submodule_paths
        return paths.get(value) if paths is not None else None

    def _path_of_constant(self, value: Any) -> str:
        path = self.tensor_attrs.get(value)
        if path is None and self._unsearched:
            for constant, place in constants_of_layers(self.submodule_paths or {}, self._unsearched).items():
                self.tensor_attrs.setdefault(constant, place)
            self._unsearched = {}
            path = self.tensor_attrs.get(value)
        if path is None:
            path = self.tensor_attrs[value] = self._install(constant_prefix(value), value)
        return path

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return `prefix` with the first number from 0 that no attribute of the root has."""
        number = self._next_number.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._next_number[prefix] = number
        return f"{prefix}{number}"

    def path_of_module(self, mod: nn.Module) -> str:
        """Return the path of a module below the root. Raises ModuleLookupError (a NameError) if it is not there."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, module in self.root.named_modules() if module is mod), None)
        if path is None:
            raise ModuleLookupError(
                f"module is not installed as a submodule: a {type(mod).__name__} was called{self._place()} that "
                f"{type(self.root).__name__} does not have; assign it to an attribute in __init__"
            )
        return path

    # Tracing.

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
        *,
        example_inputs: Any = None,
        example_kwargs: Mapping[str, Any] | None = None,
        assume: Mapping[str, Any] | None = None,
    ) -> Graph:
        """Record `root`, a module or a function, and return the graph.

        `concrete_args` fixes inputs by name to values. The values may be nested, and hold `PH` where an input stays an
        input. `self.root` is the module that paths in the graph refer to.

        With `example_inputs`, a tuple of positional arguments, and `example_kwargs`, every proxy carries the value that
        the example gives it. The values answer Python's questions, and each answer becomes a guard in `graph.guards`.
        `assume` names places, "file.py:line", at which a branch that depends on the contents of tensors is taken as in
        the example. The trace restores random generators and the state of the model. Raises ExampleError (a TypeError)
        if the example does not fit.
        """
        if example_inputs is not None or example_kwargs:
            example = {"example_inputs": example_inputs, "example_kwargs": example_kwargs, "assume": assume}
            return TRACE_WITH_EXAMPLE(self, root, concrete_args, **example)
        with gc_paused(), torch_fx_registry.tracing():
            function, is_method = self._begin(root)
            call, arguments = self.create_args_for_root(function, is_method, concrete_args)
            if self.tensor_attrs:
                self._attribute_paths.note_constants(dict(self.tensor_attrs))
            graph = self._record(root, function, call, arguments)
            if (source := getattr(root, "graph", None)) is not None:
                take_guards(source, graph)
            if paths := self._written_state():
                notes = [f"forward writes self.{path} while it is traced, and the graph does not" for path in paths]
                graph.guards = Guards(notes=notes)
            return graph

    def _written_state(self) -> list[str]:
        """Return the paths of the buffers and other tensors of the root that the traced code wrote or replaced."""
        written = self._attribute_paths.written()
        if not self._replaced:
            return written
        tables = {
            id(table): path
            for path, module in self.root.named_modules()
            for table in (module._parameters, module._buffers)
        }
        replaced = [".".join(filter(None, (tables[id(table)], name))) for table, name in self._replaced]
        return list(dict.fromkeys([*written, *replaced]))

    def _record(
        self,
        root: nn.Module | Callable[..., Any],
        function: FunctionType,
        call: Callable[..., Any],
        arguments: list[Any],
        keywords: dict[str, Any] | None = None,
    ) -> Graph:
        """Run the traced function as `call(*arguments, **keywords)`, and return the complete graph."""
        with Patcher() as patcher, self._intercepted(patcher, placeholders.globals_of(root, function)):
            returned = inspect.get_annotations(inspect.unwrap(call)).get("return")
            outputs = self._run(call, arguments, keywords or {})
            self._returning_code = placeholders.user_code_of(root, function)
            result = (self.create_arg(outputs),)
            self.create_node("output", "output", result, {}, type_expr=returned)
        if not recorded_functions.are_recorded_by_torch():
            recorded_functions.restore_targets(self.graph)
        self.submodule_paths = self._returning_code = None
        self.allow_fast_recording(False)
        return self.graph

    @contextmanager
    def _intercepted(self, patcher: Patcher, names: dict[str, Any]) -> Iterator[None]:
        """Intercept calls of modules and of functions that are to be recorded; `names` are globals of the code."""
        self._patcher = patcher
        modules = self.submodule_paths or {}
        with module_hooks.intercepted_modules(
            # Without the function for leaves, tracing models of modules takes 1.1 times as long.
            self._fast.module_call if self._fast else self._on_module_call,
            self._on_attribute_read,
            patcher,
            modules,
            every_attribute=type(self).getattr is not Tracer.getattr,
            every_call=_call_themselves(modules),
        ) as self._replaced:
            self._patch_functions()
            self._patch_globals(names)
            for module in self._autowrap_search:
                patch_module(patcher, module, self._autowrap_function_ids)
            yield

    def _patch_functions(self) -> None:
        """Replace functions of torch and of users by functions that record their calls."""
        patch_registered(self._patcher)
        if not recorded_functions.are_recorded_by_torch():
            recorded_functions.patch_recorded(self._patcher)
        distributed = torch.distributed
        if FUNCTIONAL in sys.modules or (distributed.is_available() and distributed.is_initialized()):
            patch_collectives(self._patcher)

    def _patch_globals(self, names: dict[str, Any]) -> None:
        """Replace functions in the globals of a traced function."""
        patch_globals(self._patcher, names, self._autowrap_function_ids)

    def _run(self, call: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Call the traced function. Raises TraceCallError (a TypeError) if a function in it refuses a proxy."""
        try:
            return call(*arguments, **keywords)
        except TypeError as error:
            explanation = refused_calls.explained(error, module_path_of(error.__traceback__))
            if explanation is None:
                raise
            raise explanation from error

    def _begin(self, root: nn.Module | Callable[..., Any]) -> tuple[FunctionType, bool]:
        """Set up the tables of a trace; return the function to run and whether it takes the root as `self`."""
        function, module = placeholders.function_of(root, self.traced_func_name)
        if isinstance(root, nn.Module):
            self.root = root
            self.root_module_name = type(root).__name__
            self.submodule_paths, self.tensor_attrs, self._unsearched = module_paths_and_constants(root)
        else:
            self.root = nn.Module()
            self.tensor_attrs, self._unsearched = {}, {}
        self.graph = Graph(tracer_cls=type(self))
        code = function.__code__
        self.graph._co_fields = {
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
        }
        self._attribute_paths = AttributePaths(self.root, self.submodule_paths)
        self._next_number = {}
        self._returning_code = None
        self._parameter_proxies = {}
        self._seen_kinds: set[type] = set()  # classes of modules; the globals of their forward are patched already
        self.allow_fast_recording(True)
        return function, module

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Add a placeholder for every parameter of `root_fn`; return the function to call and its arguments."""
        assert isinstance(root_fn, FunctionType)
        return RootArguments(self, root_fn, self.root if is_module else None).create(concrete_args)

    # Undoing a part of a trace.

    def _progress(self) -> Any:
        """Return the state of the recording, for `_return_to`."""
        return next(reversed(self.graph.nodes), None)

    def _return_to(self, progress: Any) -> None:
        """Remove everything that was recorded after `_progress` returned `progress`."""
        for node in reversed(self.graph.nodes):
            if node is progress:
                break
            self._parameter_proxies = {
                path: proxy for path, proxy in self._parameter_proxies.items() if proxy.node is not node
            }
            self.graph.erase_node(node)

    # Interception while a trace runs.

    def _on_module_call(self, module: nn.Module, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Hand a call of a module to `call_module`; `run` makes the call."""
        kind = type(module)
        is_own = "forward" in module.__dict__
        if kind not in self._seen_kinds or is_own:
            self._seen_kinds.add(kind)
            names = getattr(getattr(module, "forward", module), "__globals__", None)
            if names is not None:
                self._patch_globals(names)
            if isinstance(self._leaf_kinds, set) and not is_own:
                if self.is_leaf_module(module, ""):
                    self._leaf_kinds.add(kind)
                elif isinstance(self._traced_kinds, set) and not isinstance(module, LazyModuleMixin):
                    self._traced_kinds.add(kind)
        return self.call_module(module, MethodType(run, module), args, kwargs)

    def _on_attribute_read(self, name: str, value: Any) -> Any:
        """Hand the reading of a module's attribute to `getattr`."""
        if type(value) is torch.Tensor:
            self._attribute_paths.note_buffer(value)
        return self.getattr(name, value, self._parameter_proxies)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copied = type(self).__new__(type(self))
        for name, value in vars(self).items():
            # Modules of Python cannot be copied.
            vars(copied)[name] = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return copied


def module_path_of(traceback: TracebackType | None) -> str:
    """Return the path of the module that raised an error. The tracer has left the module by now."""
    path = ""
    for frame, _ in walk_tb(traceback):
        if frame.f_code is Tracer._inside.__code__:
            path = frame.f_locals["path"]
    return path


def _call_themselves(modules: Collection[nn.Module]) -> bool:
    """Return whether calling some module goes another way than from `__call__` to `_call_impl` of nn.Module."""
    kinds: set[type[nn.Module]] = set(map(type, modules))
    return any(map(_COMPILED_CALL, modules)) or any(kind._call_impl is not nn.Module._call_impl for kind in kinds)


_COMPILED_CALL = operator.attrgetter("_compiled_call_impl")  # None, or a function


@RETRACE.provide
def retrace(forward: Callable[..., Any], body: dict[str, Any]) -> nn.Module:
    """Return a graph module with the attributes in `body` and the graph of `forward`.

    `body` may name the class of tracer to use (`_tracer_cls`), arguments for it (`_tracer_extras`), the class name of
    the result (`_graphmodule_cls_name`) and stack traces of nodes (`_graphmodule_graph_node_meta_stack_trace`).
    """
    body = dict(body)
    stack_traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    tracer_class = body.get("_tracer_cls") or Tracer
    # Tracing takes forward from the class.
    root = type("CodeOnlyModule", (CodeOnlyModule,), {"forward": forward})(body)
    # Leaves of the first trace must stay leaves, because the code calls them.
    keeps_modules = type("KeepModules", (tracer_class,), {"is_leaf_module": lambda self, module, path: True})
    graph = keeps_modules().trace(root, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_class
    for node in graph.nodes:
        if stack_traces.get(node.name) is not None:
            node.stack_trace = stack_traces[node.name]
    made = GraphModule(root, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made
