"""Symbolic tracing: running a module's Python on stand-ins and recording what they go through."""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from fxcore import torch_fx_registry, traceback
from fxcore.errors import ModuleLookupError
from fxcore.gc_pause import gc_paused
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.immutable_collections import immutable_dict
from fxcore.node import Argument, Target
from fxcore.node_data.arguments import freeze
from fxcore.node_data.module_stack import ModuleCall, call_within
from fxcore.nodes.builder import append, make_node
from fxcore.proxy import ParameterProxy, Proxy
from fxcore.serialization.pickling import CodeOnlyModule, CodePickle
from fxcore.tracing import module_hooks, placeholders
from fxcore.tracing.call_site import user_frame
from fxcore.tracing.module_attributes import PathsByIdentity, constant_prefix, is_kept_as_attribute, survey
from fxcore.tracing.patching import Patcher
from fxcore.tracing.placeholders import RootArguments
from fxcore.tracing.tracer_base import CONSTANT_TYPES, Scope, TracerBase
from fxcore.tracing.wrap import (
    ids_of_functions,
    proxyable_classes,
    record_functions_of,
    record_known,
    record_registered,
)

_NO_KWARGS: immutable_dict[str, Any] = immutable_dict()

# What lies between `create_proxy` and the graph.
RECORDING_HOOKS = ("create_arg", "create_node", "proxy")


class Recorder:
    """Does at once what `create_arg`, `create_node` and `proxy` of a tracer do one after the other.

    Only for a tracer that has these from us, see `overrides_none`.
    """

    __slots__ = ("_graph", "_insert", "_tracer")

    def __init__(self, tracer: TracerBase) -> None:
        """Record for `tracer` onto the graph that it has now."""
        self._tracer = tracer
        self._graph = tracer.graph
        self._insert = tracer.graph._insert

    def can_record(self) -> bool:
        """Tell whether the next node goes to the end of the graph, and nobody hears of it."""
        graph = self._graph
        return (
            self._tracer.graph is graph
            and graph._owning_module is None
            and graph._index is None
            and graph._insert is self._insert
        )

    def record(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None,
        frame: ModuleCall | None = None,
    ) -> Proxy:
        """Record a call on values and stand-ins, and return the stand-in for its result.

        `frame` is the call of a module that it is made in, unless that is the innermost one that runs.
        """
        tracer, graph = self._tracer, self._graph
        inputs: dict[Any, None] = {}
        node_args = []
        for value in args:
            kind = type(value)
            if kind is Proxy:
                value = value.node
                inputs[value] = None
            elif kind not in CONSTANT_TYPES:
                value = freeze(tracer.create_arg(value), inputs)
            node_args.append(value)
        node_kwargs = freeze(tracer.create_arg(kwargs), inputs) if kwargs else _NO_KWARGS
        node = make_node(graph, op, target, tuple(node_args), node_kwargs, inputs)
        unique = append(graph, node, graph._target_to_str(target) if name is None else name)
        if frame is None:
            frame, scope = tracer._frame_now(), tracer.scope
            # The frame's own tuple, if it says the same: each object less is less for the garbage collector.
            place = None if frame is None else frame.place
            if place is None or place[0] is not scope.module_path or place[1] is not scope.module_type:
                place = scope.module_path, scope.module_type
        else:
            place = frame.place
        tracer.node_name_to_scope[unique] = place
        if traceback.has_preserved_node_meta():
            node.meta.update(traceback.meta_for_new_node())
        else:
            node._meta = frame
        if tracer.record_sources:
            source = user_frame()
            if source is not None:
                node.meta["source"] = (source.f_code.co_filename, source.f_lineno)
        proxy = Proxy.__new__(Proxy)
        proxy.tracer = tracer
        proxy.node = node
        return proxy


def overrides_none(obj: object, own: type, hooks: tuple[str, ...]) -> bool:
    """Tell whether an object has the methods `hooks` of `own`, a class of ours; neither class nor object has others."""
    cls = type(obj)
    return all(getattr(cls, hook) is getattr(own, hook) for hook in hooks) and vars(obj).keys().isdisjoint(hooks)


__all__ = ["Tracer", "symbolic_trace"]

# What a call of a module goes through.
_CALL_HOOKS = ("call_module", "path_of_module", "is_leaf_module", "create_proxy")

# Containers that a Tracer treats as TracerBase does.
_ORDINARY_CONTAINERS = frozenset({list, dict, slice})


class Tracer(TracerBase):
    """Records what a module, or a function, does with its inputs.

    Override `is_leaf_module` to say which modules are recorded as one call, `call_module`, `create_arg`,
    `create_node`, `create_proxy`, `proxy`, `iter`, `to_bool` and `keys` to change how anything is recorded.
    """

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
        self._next_number: dict[str, int] = {}
        self._parameter_proxies: dict[str, Any] = {}
        self._leaf_recorder: Recorder | None = None

    @functools.cached_property
    def _paths(self) -> PathsByIdentity:
        # Made by trace(), and here for those who set `root` and `graph` and record without it.
        return PathsByIdentity(self.root)

    # What users override.

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Tell whether a module becomes one node. By default those of torch.nn do, except nn.Sequential."""
        return m.__module__.startswith(("torch.nn", "torch.ao.nn")) and not isinstance(m, nn.Sequential)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Answer a call of a module: a node if it is a leaf, else what `forward(*args, **kwargs)` returns."""
        path = self.path_of_module(m)

        def answer() -> Any:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)

        return self._run_within(self._frame_of_call(path, type(m)), answer, (), {})

    def _frame_of_call(self, path: str, kind: type) -> ModuleCall:
        """Return the frame of one more call of the module at `path`, within the one that runs."""
        numbers = self.num_calls
        calls = numbers.get(path, 0)
        numbers[path] = calls + 1
        return call_within(self._frame_now(), f"{path}@{calls}" if calls else path, (path, kind))

    def _run_within(
        self, frame: ModuleCall, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function while the call of a module that `frame` is of is the one that runs."""
        scope, stack, key = self.scope, self.module_stack, frame.key
        outer_path, outer_type = scope.module_path, scope.module_type
        scope.module_path, scope.module_type = stack[key] = frame.place
        self._module_frame = frame
        try:
            return function(*args, **kwargs)
        finally:
            stack.pop(key, None)
            self._module_frame = frame.outer
            scope.module_path, scope.module_type = outer_path, outer_type

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Answer the reading of a module's attribute: a stand-in for a parameter, else the value itself.

        With `proxy_buffer_attributes`, for a buffer too.
        """
        if isinstance(attr_val, nn.Parameter):
            path = self._paths.parameter(attr_val)
        elif self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            path = self._paths.buffer(attr_val)
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

    def create_arg(self, a: Any) -> Argument:
        """Return what stands for `a` in the arguments of a node.

        As `TracerBase.create_arg`, and: parameters, buffers, submodules and constant tensors become `get_attr`
        nodes; a tensor that no module has is kept on the root as `_tensor_constant0`, `1` and so on.
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
        if isinstance(a, (torch.Tensor, nn.Module)):
            path = self._path_of(a)
            if path is not None:
                return self.create_node("get_attr", path, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple([self.create_arg(item) for item in a])
            return self.create_node("call_function", kind, items, {})
        if is_kept_as_attribute(a):
            node = self.create_node("get_attr", self._path_of_constant(a), (), {})
            node.meta["is_constant"] = True  # a GraphModule keeps it as a buffer, and nobody could tell any more
            return node
        if kind in proxyable_classes:
            path = self.get_fresh_qualname(f"_{kind.__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _path_of(self, value: torch.Tensor | nn.Module) -> str | None:
        if isinstance(value, nn.Parameter):
            path = self._paths.parameter(value)
            if path is None:
                raise ModuleLookupError(
                    f"parameter is not a member of this module: one of shape {list(value.shape)} was used"
                    f"{self._place()}, and {type(self.root).__name__} does not have it; register it on the module, or "
                    "pass it as an input"
                )
            return path
        if isinstance(value, torch.Tensor):
            return self._paths.buffer(value)
        paths = self.submodule_paths
        return paths.get(value) if paths is not None else None

    def _path_of_constant(self, value: Any) -> str:
        path = self.tensor_attrs.get(value)
        if path is None:
            path = self.get_fresh_qualname(constant_prefix(value))
            self.tensor_attrs[value] = path
            setattr(self.root, path, value)
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
        self, root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> Graph:
        """Record `root`, a module or a function, and return the graph.

        `concrete_args` fixes inputs by name to values, which may be nested and hold `PH` where an input stays one.
        `self.root` is the module that paths in the graph refer to.
        """
        with gc_paused(), torch_fx_registry.tracing():
            function, is_method = self._begin(root)
            call, arguments = self.create_args_for_root(function, is_method, concrete_args)
            with Patcher() as patcher:
                self._patcher = patcher
                modules = self.submodule_paths or {}
                with module_hooks.listening(
                    self,
                    patcher,
                    modules,
                    to_every_attribute=type(self).getattr is not Tracer.getattr,
                    to_every_call=any(_calls_itself(module) for module in modules),
                ):
                    record_registered(patcher)
                    record_known(patcher, placeholders.globals_of(root, function), self._autowrap_function_ids)
                    for module in self._autowrap_search:
                        record_functions_of(patcher, module, self._autowrap_function_ids)
                    returned = inspect.get_annotations(inspect.unwrap(call)).get("return")
                    result = (self.create_arg(call(*arguments)),)
                    self.create_node("output", "output", result, {}, type_expr=returned)
            self.submodule_paths = None
            self._recorder = self._leaf_recorder = None
        return self.graph

    def _begin(self, root: nn.Module | Callable[..., Any]) -> tuple[FunctionType, bool]:
        """Set up the tables of a trace; return the function to run and whether it takes the root as `self`."""
        function, module = placeholders.function_of(root, self.traced_func_name)
        if isinstance(root, nn.Module):
            self.root = root
            self.root_module_name = type(root).__name__
            self.submodule_paths, self.tensor_attrs = survey(root)
        else:
            self.root = nn.Module()
            self.tensor_attrs = {}
        self.graph = Graph(tracer_cls=type(self))
        code = function.__code__
        self.graph._co_fields = {
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
        }
        self._paths = PathsByIdentity(self.root)
        self._next_number = {}
        self._parameter_proxies = {}
        self._seen_kinds: set[type] = set()  # classes of modules whose forward's globals have been looked through
        self._leaf_kinds: dict[type, bool] = {}
        wants_more = self.record_stack_traces or self.check_mutable_operations
        is_plain = overrides_none(self, Tracer, RECORDING_HOOKS) and not wants_more
        self._recorder = recorder = Recorder(self) if is_plain else None
        self._leaf_recorder = recorder if overrides_none(self, Tracer, _CALL_HOOKS) else None
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

    # What the running trace hears (active_trace.Trace).

    def module_called(self, module: nn.Module, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Hand a call of a module, which `run` makes, to `call_module`."""
        kind = type(module)
        if kind not in self._seen_kinds or "forward" in module.__dict__:
            self._seen_kinds.add(kind)
            names = getattr(getattr(module, "forward", module), "__globals__", None)
            if names is not None:
                record_known(self._patcher, names, self._autowrap_function_ids)
        recorder = self._leaf_recorder
        if recorder is None:
            return self.call_module(module, functools.partial(run, module), args, kwargs)
        # The same, but for what nobody overrides.
        path = self.path_of_module(module)
        is_leaf = self._leaf_kinds.get(kind)
        if is_leaf is None:
            is_leaf = self._leaf_kinds[kind] = self.is_leaf_module(module, path)
        if not is_leaf:
            return self._run_within(self._frame_of_call(path, kind), run, (module, *args), kwargs)
        if recorder.can_record():
            # Nothing of the user's runs inside: the call need not be entered and left.
            return recorder.record("call_module", path, args, kwargs, None, self._frame_of_call(path, kind))
        return self.call_module(module, functools.partial(run, module), args, kwargs)

    def attribute_read(self, name: str, value: Any) -> Any:
        """Hand the reading of a module's attribute to `getattr`."""
        if type(value) is torch.Tensor:
            self._paths.expect_buffer(value)
        return self.getattr(name, value, self._parameter_proxies)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        copied = type(self).__new__(type(self))
        for name, value in vars(self).items():
            # Modules of Python cannot be copied.
            vars(copied)[name] = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return copied


def _calls_itself(module: nn.Module) -> bool:
    """Tell whether calling a module goes another way than from `__call__` to `_call_impl` of nn.Module."""
    return module._compiled_call_impl is not None or type(module)._call_impl is not nn.Module._call_impl


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """Trace a module or function and return a GraphModule that does the same.

    `concrete_args` fixes inputs to values, to remove control flow or nested inputs; see `Tracer.trace`.
    """
    with gc_paused():
        tracer = Tracer()
        graph = tracer.trace(root, concrete_args)
        return GraphModule(tracer.root, graph, placeholders.name_of(root))


def retrace(forward: Callable[..., Any], body: dict[str, Any]) -> nn.Module:
    """Return a graph module with the attributes in `body` whose graph is that of `forward`.

    `body` may name the class of tracer to use (`_tracer_cls`), arguments for it (`_tracer_extras`), the class name of
    the result (`_graphmodule_cls_name`) and stack traces of nodes (`_graphmodule_graph_node_meta_stack_trace`).
    """
    body = dict(body)
    stack_traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    tracer_class = body.get("_tracer_cls") or Tracer
    # Tracing takes forward from the class.
    root = type("CodeOnlyModule", (CodeOnlyModule,), {"forward": forward})(body)
    # The code calls what was a leaf when it was first traced.
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


CodePickle.retrace = staticmethod(retrace)
