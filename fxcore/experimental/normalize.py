"""Bringing calls into one form."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import nn
from torch._jit_internal import boolean_dispatched

from fxcore.errors import GraphArgumentError
from fxcore.graph_module import GraphModule
from fxcore.interpreter import Transformer
from fxcore.node import Argument, Node, Target
from fxcore.node_data.arguments import map_aggregate
from fxcore.operator_schemas import create_type_hint, normalize_function, normalize_module, python_type
from fxcore.proxy import Proxy


class AnnotateTypesWithSchema(Transformer):
    """Copies a graph, and notes types on untyped nodes: calls of torch.nn and its functions, and attributes."""

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        """Choose the kinds of nodes that get types."""
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Copy a call of a function."""
        annotation = None
        if self.annotate_functionals and getattr(target, "__module__", None) == "torch.nn.functional":
            annotation = _return_type_of_functional(target)
        return _typed(super().call_function(target, args, kwargs), annotation)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Copy a call of a module."""
        module = self.fetch_attr(str(target))
        is_torchs = getattr(nn, type(module).__name__, None) is type(module)
        annotation = _return_type(module.forward) if self.annotate_modules and is_torchs else None
        return _typed(super().call_module(target, args, kwargs), annotation)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Copy the reading of an attribute."""
        proxy = super().get_attr(target, args, kwargs)
        if not self.annotate_get_attrs:
            return proxy
        inferred = torch._C._jit_try_infer_type(self.fetch_attr(str(target)))
        return _typed(proxy, python_type(inferred.type()) if inferred.success() else None)


def _typed(proxy: Any, annotation: Any) -> Any:
    if not proxy.node.type:
        proxy.node.type = annotation
    return proxy


def _return_type_of_functional(target: Any) -> Any:
    if target not in boolean_dispatched:
        return _return_type(target)
    branches = boolean_dispatched[target]
    if_true, if_false = _return_type(branches["if_true"]), _return_type(branches["if_false"])
    return if_true if if_true == if_false else None


def _return_type(function: Callable[..., Any]) -> Any:
    try:
        annotation = inspect.signature(function).return_annotation
    except (ValueError, TypeError):  # builtins without a signature
        return None
    return None if annotation is inspect.Signature.empty else annotation


__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Copies a graph with the arguments of functions and torch modules as keywords, with all defaults.

    Calls that match no signature stay as they are. Where several overloads of a function fit, the types in
    `node.meta["type"]`, noted by ShapeProp, choose.
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        """Prepare to normalize `module`; `normalize_to_only_use_kwargs` turns positional arguments into keywords."""
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """Copy one node, with its metadata and type."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def type_of(arg: Any) -> Any:
            # The node's own type, as in torch.fx, because the argument's type would choose other overloads.
            return n.meta.get("type") if isinstance(arg, Node) else type(arg)

        if n.op == "call_function":
            arg_types = tuple([create_type_hint(each) for each in map_aggregate(n.args, type_of)])
            kwarg_types = {name: type_of(value) for name, value in kwargs.items()}
            result = self.call_function(n.target, args, kwargs, arg_types, kwarg_types)
        else:
            result = super().run_node(n)
        if n.op != "output":
            self.node_map[result] = n
            result.node.meta = n.meta
            result.node.type = n.type
        return result

    def call_function(
        self,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Any],
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
    ) -> Any:
        """Copy a call of a function with its arguments normalized. Raises GraphArgumentError for a name."""
        if not callable(target):
            raise GraphArgumentError(f"Expected callable target, got {type(target)}: {target!r} cannot be called")
        normalized = normalize_function(target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs)
        if normalized is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, *normalized)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Copy a call of a module with its arguments normalized."""
        normalized = normalize_module(self.module, str(target), args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(normalized or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """Copies a graph with torch's arithmetic functions spelled as Python's operators: `torch.add(x, y)` as `x + y`."""

    binary_magic_method_remap: ClassVar[dict[Callable[..., Any], Callable[[Any, Any], Any]]] = {
        torch.add: operator.add,
        torch.mul: operator.mul,
        torch.sub: operator.sub,
        torch.div: operator.truediv,
        torch.floor_divide: operator.floordiv,
        torch.remainder: operator.mod,
        torch.eq: operator.eq,
        torch.ne: operator.ne,
        torch.lt: operator.lt,
        torch.le: operator.le,
        torch.gt: operator.gt,
        torch.ge: operator.ge,
    }

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Copy a call of a function. A function of the table with two arguments becomes the operator.

        Raises GraphArgumentError (an AssertionError) if `target` is a name.
        """
        if not callable(target):
            raise GraphArgumentError(f"Expected callable target, got {type(target)}: {target!r} cannot be called")
        # torch.fx drops `alpha=2` and `rounding_mode="floor"` on the way.
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)
