"""Types of values, from the annotations of the functions and modules that compute them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._jit_internal import boolean_dispatched

from fxcore.graph_module import GraphModule
from fxcore.interpreter import Transformer
from fxcore.node import Argument, Target
from fxcore.operator_signatures import python_type


class AnnotateTypesWithSchema(Transformer):
    """Copies a graph and notes types on nodes that have none: calls of torch.nn and its functions, and attributes."""

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        """Say which kinds of nodes get types."""
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
