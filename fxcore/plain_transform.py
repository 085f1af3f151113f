"""The short way from a graph to the graph that a Transformer makes of it: from node to node, without stand-ins."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from fxcore import traceback
from fxcore.arguments import freeze, map_values
from fxcore.graph import Graph
from fxcore.immutable_collections import immutable_dict, immutable_list
from fxcore.module_frame import FrameOfCopy, ModuleFrame
from fxcore.node import Node
from fxcore.node_assembly import append, assemble
from fxcore.node_source import NodeSource, NodeSourceAction
from fxcore.proxy import Proxy
from fxcore.recording import CONSTANT_TYPES

_CONTAINERS = frozenset({tuple, list, dict, immutable_list, immutable_dict, slice})
_AT_ROOT: tuple[str, Any] = ("", None)


class _UnusualError(Exception):
    """Recording would do more with this than to copy it."""


class PlainTransform:
    """Makes of each node what recording its run on stand-ins would make of it; stops at a node that is special."""

    def __init__(
        self, graph: Graph, modules: Mapping[str, Any], pass_name: str, places: dict[str, Any], *, keep_types: bool
    ) -> None:
        """Copy to `graph`.

        `modules` are those below the root by their first paths. `places` learns which node is of which module.
        """
        self._graph = graph
        self._modules = modules
        self._pass_name = pass_name
        self._places = places
        self._keep_types = keep_types
        self.copies: dict[Node, Node] = {}

    def copy(self, original: Graph) -> Node | None:
        """Copy nodes up to the output or up to one that is special; return that, or None where no node is left."""
        for node in original.nodes:
            if node._op == "output":
                return node
            try:
                self.copies[node] = self._copied(node)
            except _UnusualError:
                return node
        return None

    def value(self, argument: Any) -> Any:
        """Return an argument of an original node with copies in place of nodes."""
        return map_values(argument, self.copies.__getitem__)

    def _copied(self, node: Node) -> Node:
        op, target, graph = node._op, node._target, self._graph
        try:
            candidate = graph._target_to_str(target)
        except AttributeError:  # a callable without a name
            raise _UnusualError from None
        inputs: dict[Node, None] = {}
        args = self._placeholder_arguments(node, inputs) if op == "placeholder" else self._mapped(node._args, inputs)
        kwargs = self._mapped(node._kwargs, inputs) if node._kwargs else node._kwargs
        place = _AT_ROOT
        if op == "call_module":
            path = str(target)
            if path not in self._modules:
                raise _UnusualError  # not there, or there under another path before
            place = path, type(self._modules[path])
        elif op == "call_method" and (not args or type(args[0]) is not Node or _is_answered(target)):
            raise _UnusualError
        copied = assemble(graph, op, target, args, kwargs, inputs)
        name = append(graph, copied, candidate)
        if op != "placeholder":
            self._places[name] = place
        if self._keep_types:
            copied._type = node._type
        meta = self._meta_of(node, op)
        if meta:
            copied._meta = meta
        return copied

    def _placeholder_arguments(self, node: Node, inputs: dict[Node, None]) -> tuple[Any, ...]:
        """Return the default value, which may be anything."""
        if not node._args:
            return ()
        if len(node._args) > 1 or node._kwargs or node._args[0] is inspect.Signature.empty:
            raise _UnusualError
        return freeze(self.value(node._args), inputs)  # type: ignore[no-any-return]  # a tuple stays one

    def _mapped(self, argument: Any, inputs: dict[Node, None]) -> Any:
        """Return an argument with copies in place of nodes, all noted as inputs."""
        kind = type(argument)
        if kind is tuple or kind is immutable_list:
            copies = self.copies
            items = []
            for item in argument:
                kind_of_item = type(item)
                if kind_of_item is Node:
                    item = copies.get(item)
                    if item is None:
                        raise _UnusualError  # it stands behind
                    inputs[item] = None
                elif kind_of_item not in CONSTANT_TYPES:
                    item = self._mapped(item, inputs)
                items.append(item)
            return kind(items)
        if kind is Node:
            return self._mapped((argument,), inputs)[0]
        if kind is slice:
            return slice(*self._mapped((argument.start, argument.stop, argument.step), inputs))
        if kind is immutable_dict and all(type(key) is str for key in argument):
            return immutable_dict([(key, self._mapped(item, inputs)) for key, item in argument.items()])
        if kind in CONSTANT_TYPES:
            return argument
        raise _UnusualError

    def _meta_of(self, node: Node, op: str) -> dict[str, Any] | FrameOfCopy | None:
        if node._meta is None:
            return traceback.meta_for_new_node() if op != "placeholder" and traceback.get_current_meta() else None
        if type(node._meta) is ModuleFrame and op != "placeholder":
            return FrameOfCopy(node._meta, self._pass_name, node._name, node._target, id(node.graph))
        meta = node.meta
        if op == "placeholder" or not meta:
            return dict(meta)
        source = NodeSource(node, self._pass_name, NodeSourceAction.CREATE)
        copied = traceback.meta_taken_over({**meta, "from_node": [source]})
        for key, value in meta.items():
            copied.setdefault(key, value)
        return copied


@functools.lru_cache(maxsize=4096)
def _is_answered(method: str) -> bool:
    """Tell whether stand-ins have a method of their own under this name, or an attribute."""
    return hasattr(Proxy, method) or method in ("node", "tracer")
