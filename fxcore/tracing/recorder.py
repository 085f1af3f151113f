"""Recording: a value becomes an argument, a call becomes a node, a node becomes a proxy."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxcore import traceback
from fxcore.errors import GraphArgumentError, TraceArgumentError, TraceError
from fxcore.graph import Graph
from fxcore.node import Argument, Node, Target
from fxcore.node_data.arguments import map_values
from fxcore.node_data.distributed_types import is_reduction
from fxcore.node_data.module_stack import ModuleCall, innermost_call
from fxcore.node_data.opaque_types import is_opaque_constant_type
from fxcore.operator_schemas import check_for_mutable_operation
from fxcore.tracing import call_site
from fxcore.tracing.call_site import returning_line, user_frame, user_line


class Scope:
    """Path and class of the module that runs its forward; path "" and class None for the root."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Gives one scope the path and class of another until the `with` block ends."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = (scope.module_path, scope.module_type)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before


class SymbolicValue:
    """Stands for a value that a graph will compute. Every proxy is one."""

    __fx_is_symbolic__ = True  # files below ask for this mark
    tracer: Recorder
    node: Node


# Constants that go into a graph as they are, by exact type.
CONSTANT_TYPES: frozenset[type] = frozenset(
    {
        str,
        int,
        float,
        bool,
        complex,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.layout,
        OpOverload,
        HigherOrderOperator,
        torch.SymInt,
        torch.SymBool,
        torch.SymFloat,
    }
)
_CONSTANTS: tuple[type, ...] = (*CONSTANT_TYPES, torch.Tensor, enum.Enum)


class Recorder:
    """Turns values, calls and nodes into arguments, nodes and proxies, without any idea of modules.

    `TracerBase` adds `proxy`, because the class of proxies stands above this file. Users may override every method.
    """

    graph: Graph
    record_stack_traces: bool = False
    record_sources: bool = False  # keep, in meta["source"], file and line of the user's program; costs little
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]
    proxy: Callable[..., Any]  # of a node; a method of TracerBase

    # Whether draws of random numbers, changes of mode and collectives are recorded without a proxy among the arguments.
    records_without_proxy: bool = False

    # The top of `module_stack` at the last look at it.
    _module_call: ModuleCall | None = None

    # The traced function while its result becomes the argument of the output: no line of it runs then.
    _returning_code: CodeType | None = None

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a node to the graph, with its module path and, if asked for, its stack.

        Override it to check or change the recorded nodes.
        """
        if self.check_mutable_operations and kind == "call_function":
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]  # a function, by its opcode
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = self.scope
        self.node_name_to_scope[node._name] = (scope.module_path, scope.module_type)
        if traceback.has_preserved_node_meta():
            node.meta.update(traceback.meta_for_new_node())
        elif self.module_stack:
            self._note_module(node)
        if self.record_sources:
            self._note_source(node)
        if self.record_stack_traces and not node.stack_trace:
            trace = call_site.capture(forward_only=self._record_forward_stack_traces_only)
            if trace:
                node.stack_trace = trace
        return node

    def _note_module(self, node: Node) -> None:
        """Note on a new node the running calls of modules."""
        call = self._current_call()
        if node._meta is None:
            node._meta = call
        elif call is not None:  # a hook has written to it already
            node.meta.update(call.meta())

    def _note_source(self, node: Node) -> None:
        """Note on a new node the running line of the user."""
        frame = user_frame()
        if frame is not None:
            node.meta["source"] = (frame.f_code.co_filename, frame.f_lineno)

    def _current_call(self) -> ModuleCall | None:
        """Return the innermost running call of a module."""
        stack, call = self.module_stack, self._module_call
        if not stack:
            return None
        if call is None or len(stack) != call.depth or stack.get(call.key) is not call.place:
            call = self._module_call = innermost_call(stack)  # a tracer of the user's changed the stack
        return call

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
        """Record a call on values and proxies, and return the proxy for its result.

        Raises GraphArgumentError (an AssertionError) if `create_arg` is overridden and returns other containers.
        """
        node_args = self.create_arg(args)
        node_kwargs = self.create_arg(kwargs)
        if not isinstance(node_args, tuple) or not isinstance(node_kwargs, dict):
            raise GraphArgumentError(
                f"Expected args_ to be tuple and kwargs_ to be dict, got {type(node_args)} and {type(node_kwargs)}: "
                f"{type(self).__name__}.create_arg() must return containers of the kind that it is given"
            )
        node = self.create_node(kind, target, node_args, node_kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """Return the argument of a node that stands for `a`: proxies become their nodes, containers are mapped.

        Raises TraceArgumentError (a NotImplementedError) for an object that a graph cannot hold, and GraphError for
        a dict with a proxy in a key.
        """
        kind = type(a)
        if kind in CONSTANT_TYPES:
            return a
        if isinstance(a, SymbolicValue):
            return a.node
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        if kind is dict:
            return {self._create_key(key): self.create_arg(item) for key, item in a.items()}
        if kind is list:
            return [self.create_arg(item) for item in a]
        return self._create_unusual_arg(a)

    def _create_unusual_arg(self, a: Any) -> Argument:
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._create_key(key): self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if is_opaque_constant_type(type(a)) or is_reduction(a):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            return self._node_of_dataclass(a)
        if type(a).__module__ == "numpy" and hasattr(a, "item") and getattr(a, "ndim", 1) == 0:
            return a.item()  # a scalar of numpy prints as a call of numpy, and generated code cannot make that call
        if isinstance(a, _CONSTANTS):
            return a
        raise TraceArgumentError(
            f"argument of type: {type(a)}{self._place()}\n{_shown(a)} cannot be an argument of a node. Pass its "
            "tensors and numbers one by one, or make the function that takes it a leaf with wrap()"
        )

    def _node_of_dataclass(self, value: Any) -> Node:
        kwargs = {field.name: self.create_arg(getattr(value, field.name)) for field in fields(value)}
        return self.create_node("call_function", type(value), (), kwargs)

    def _create_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        argument = self.create_arg(key)
        map_values(argument, self._refuse_key)
        return argument

    def _refuse_key(self, node: Node) -> Any:
        raise TraceArgumentKeyError(
            f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}{self._place()}\n"
            "A graph's dict has fixed keys; look the value up outside of the traced function"
        )

    def _place(self) -> str:
        """Return ` at file:line: source (in module path)`, as far as known."""
        code = self._returning_code
        line = user_line() if code is None else f"{returning_line(code)}, in what the traced function returns"
        path = getattr(getattr(self, "scope", None), "module_path", "")
        return (f" at {line}" if line else "") + (f" (in module {path!r})" if path else "")

    def to_bool(self, obj: Any) -> bool:
        """Return the truth of a proxy. By default raises TraceError (a ValueError): it is not known while tracing."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow\n"
            f"{_describe(obj)} was asked for its truth{self._place()}\n"
            "While tracing there is no data, so a branch on it cannot be taken. Decide on something that is known "
            "(an argument given in concrete_args, an attribute of the module), write it without a branch "
            "(torch.where), or keep the branch in a leaf: a function with wrap(), a module with is_leaf_module()"
        )

    def iter(self, obj: Any) -> Iterator[Any]:
        """Return an iterator over a proxy. By default raises TraceError (a ValueError): its length is not known."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            f"**kwargs function argument.\n{_describe(obj)} was iterated{self._place()}\n"
            "While tracing its length is not known. Loop over a known number of indices (for i in range(n): x[i]), "
            "unpack into names (a, b = x), or keep the loop in a leaf: a function with wrap()"
        )

    def keys(self, obj: Any) -> Any:
        """Return `.keys()` of a proxy, which `**` asks for too. By default, record a call of the method."""
        return self.create_proxy("call_method", "keys", (obj,), {})

    def _find_user_frame(self) -> FrameType | None:
        return user_frame()


class TraceArgumentKeyError(TraceError, RuntimeError):
    """A dict in the arguments of a node has a symbolic value in a key."""


def _shown(value: object) -> str:
    try:
        return f"{value!r:.200}"
    except Exception:  # its repr may compute with the proxies that it holds
        return f"An object of type {type(value).__name__}"


def _describe(value: Any) -> str:
    node = value.node
    inputs = ", ".join([item._name for item in node._input_nodes])
    return f"The value {node._name!r} ({node._op}" + (f" of {inputs}" if inputs else "") + ")"
