"""Proxies: they stand for values that are not known yet, and record the operations on them."""

from __future__ import annotations

import copy
import functools
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import is_tensor_method_or_property
from torch.utils import _pytree as pytree

from fxcore.errors import GraphArgumentError, TraceError, TraceLengthError, TracerMismatchError
from fxcore.graph import Graph
from fxcore.node import Node, base_types
from fxcore.node_data.namespace import snake_case
from fxcore.operators.syntax import OPERATORS, REFLECTABLE_OPERATORS
from fxcore.traceback import COPIED_FIELDS
from fxcore.tracing import call_site
from fxcore.tracing.recorder import CONSTANT_TYPES, Recorder, Scope, ScopeContextManager, SymbolicValue

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
    "base_types",
]


# Names of torch.fx that programs import, although torch does not promise them.
magic_methods, reflectable_magic_methods = OPERATORS, REFLECTABLE_OPERATORS
_COPY_META_FIELDS = COPIED_FIELDS


_SCRIPT_METHOD = torch._C.ScriptMethod

_new = object.__new__


class TracerBase(Recorder):
    """Everything that recording needs, without any idea of modules. Users may override every method."""

    def proxy(self, node: Node) -> Any:
        """Return a proxy for the value of `node`."""
        return Proxy(node, self)


class GraphAppendingTracer(TracerBase):
    """Records at the insertion point of a graph, for proxies that somebody makes around its nodes by hand."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """Raise AssertionError if `x` is false. A traced `assert` calls this function."""
    if not x:
        raise GraphArgumentError("Assertion failed")


class RecordingProxy(SymbolicValue):
    """The base of every proxy: functions of torch, methods and operators on it become new nodes.

    A proxy has no value, and so it cannot be iterated, measured with `len` or asked for its truth. It can be unpacked
    into a fixed number of names.
    """

    def __init__(self, node: Node, tracer: Recorder | None = None) -> None:
        """Stand for the value of `node`; without a tracer, record onto the node's own graph."""
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        # The read is recorded only when its value is used, because most attributes are methods about to be called.
        attribute = _new(Attribute)  # a method's call takes 0.95 of the time without the constructor
        attribute.root, attribute.attr, attribute.tracer = self, k, self.tracer
        return attribute

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            try:
                copied.__dict__[name] = copy.deepcopy(value, memo)
            except Exception:  # a tracer may hold anything; a value that cannot be copied is shared
                copied.__dict__[name] = copy.copy(value)
        return copied

    def __iter__(self) -> Iterator[Any]:
        length = call_site.unpacked_length(sys._getframe(1))
        if length is not None:
            return (operator.getitem(self, index) for index in range(length))
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and call_site.is_assertion(sys._getframe(1), self.node.target):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Record a call of the value's `keys()`; the tracer may answer otherwise."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise TraceLengthError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            f"torch.fx.wrap('len') at module scope\nlen() was called on {self.node.name!r}{self.tracer._place()}\n"
            "While tracing its length is not known. Use x.shape[0] or x.size(0), whose value is found when the graph "
            "runs, or fxcore.wrap('len') at the top level of that module to record the call"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        args = args or ()
        tracer = tracer_of(orig_method, args, kwargs)
        if type(orig_method) is _SCRIPT_METHOD:
            return tracer.create_proxy("call_method", orig_method.name, (orig_method.owner, *args), kwargs)
        is_method, is_higher_order, name = _kind_of(orig_method)
        if is_method:
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        if is_higher_order:
            _refuse_callables(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Proxy(RecordingProxy):
    """Stands for the value of a node: functions of torch, methods and operators on it become new nodes.

    A proxy has no value, and so it cannot be iterated, measured with `len` or asked for its truth. It can be unpacked
    into a fixed number of names.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)


@functools.lru_cache(maxsize=4096)
def _kind_of(function: Any) -> tuple[bool, bool, str]:
    """Return whether a function is a method of Tensor, whether it is a higher-order operator, and a node's name."""
    # The class has an abstract base, so asking for each call takes a tenth of the time of recording the call.
    is_higher_order = isinstance(function, HigherOrderOperator)
    name = function.__name__
    is_magic = name.startswith("__") and name.endswith("__")
    # With a torch before 2.13, a trace replaces some methods, and `function` may be the replacement.
    original = getattr(function, "replaced_by_trace", function)
    is_method = is_tensor_method_or_property(original)
    return is_method, is_higher_order, snake_case(name[2:-2] if is_magic else name)


def tracer_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorder:
    """Return the one tracer of the proxies among the arguments."""
    found: Recorder | None = None
    for value in args:
        if type(value) is Proxy:
            if found is not None and value.tracer is not found:
                break
            found = value.tracer
        elif type(value) not in CONSTANT_TYPES:
            break
    else:
        # Nearly always: proxies and constants without nesting. Asking for no keywords takes 0.5 µs less than for some.
        if found is not None and (not kwargs or CONSTANT_TYPES.issuperset(map(type, kwargs.values()))):
            return found
    return _tracer_of_nested(function, args, kwargs)


def _tracer_of_nested(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorder:
    tracers: dict[Recorder, None] = {}
    _collect_tracers((args, kwargs), tracers)
    if not tracers:
        for leaf in pytree.tree_leaves((args, kwargs)):
            _collect_tracers(leaf, tracers)
    if len(tracers) != 1:
        raise TracerMismatchError(
            f"Found multiple different tracers {list(tracers)} while trying to trace operations {function}: "
            "the values come from different graphs; make all proxies of one graph with one tracer"
        )
    return next(iter(tracers))


def _collect_tracers(value: Any, tracers: dict[Recorder, None]) -> None:
    if isinstance(value, SymbolicValue):
        tracers[value.tracer] = None
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect_tracers(item, tracers)
    elif isinstance(value, dict):
        for item in value.values():
            _collect_tracers(item, tracers)


def _refuse_callables(function: Any, args: Any, kwargs: Any) -> None:
    kinds = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
    found = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, kinds)), None)
    if found is not None:
        raise TraceFunctionError(
            f"Unable to symbolically trace the HigherOrderOperator {function._name} because it received an arbitrary "
            f"callable argument {found}. Use make_fx or dynamo tracing instead."
        )


class TraceFunctionError(TraceError, RuntimeError):
    """A higher-order operator was called with a function. Tracing cannot see the function's body."""


class Attribute(Proxy):
    """An attribute of a proxy's value. It becomes a node when it is used, or a method call when it is called."""

    _node: Node | None = None

    def __init__(self, root: RecordingProxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer

    @property
    def node(self) -> Node:  # type: ignore[override]  # made late, where a Proxy has a plain attribute
        """The node that reads the attribute, made when first asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A proxy for a parameter. Its shape is known while tracing."""

    def __init__(self, tracer: Recorder, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, torch.nn.Parameter):
            raise GraphArgumentError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> torch.Size:
        """The parameter's shape."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def size(self) -> torch.Size:
        """Return the parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    def numel(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.nelement()


def recorded_operator(name: str) -> Callable[..., Any]:
    """Return a method of proxies that records a call of a function of `operator`."""
    target = getattr(operator, name)

    def record(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    record.__name__ = name
    return record


def _recorded_reflection(name: str) -> Callable[..., Any]:
    target = getattr(operator, name)

    def record(self: RecordingProxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    record.__name__ = record.__qualname__ = f"__r{name.strip('_')}__"
    return record


for _name in OPERATORS:
    setattr(RecordingProxy, f"__{_name.strip('_')}__", recorded_operator(_name))
for _name in REFLECTABLE_OPERATORS:
    setattr(RecordingProxy, f"__r{_name.strip('_')}__", _recorded_reflection(_name))
