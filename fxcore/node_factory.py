"""Methods that make one kind of node each."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from fxcore.dotted import has_attribute
from fxcore.node import Argument, Node, Target

_NO_REFERENCE = (
    "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
    "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
    "Parameter, or nn.Module.register_buffer to add the necessary buffer"
)


class NodeFactory:
    """Makes nodes through `create_node`, which the graph defines."""

    _owning_module: Any | None

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Make a node and return it."""
        raise TypeError(f"{type(self).__name__} does not say how nodes are made")

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Add an input named `name`, with a default value unless that is `inspect.Signature.empty`."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Add the reading of the attribute at a dotted path; warns if the owning module has none there."""
        if self._owning_module is not None and not has_attribute(self._owning_module, qualified_name):
            warnings.warn(_NO_REFERENCE, stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of the submodule at a dotted path; `args` are without `self`."""
        if self._owning_module is not None:
            self._owning_module.get_submodule(module_name)  # raises AttributeError if there is none
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of a method of `args[0]`; the other arguments are the method's."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Add the return of `result`, which may nest values in tuples, lists and dicts."""
        return self.create_node(op="output", target="output", args=(result,), type_expr=type_expr)
