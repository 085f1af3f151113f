"""The short way from a call on stand-ins to its node, for tracers that override nothing in between."""

from __future__ import annotations

from typing import Any

from fxcore import traceback
from fxcore.arguments import freeze
from fxcore.immutable_collections import immutable_dict
from fxcore.module_frame import ModuleFrame
from fxcore.node import Target
from fxcore.node_assembly import append, assemble
from fxcore.proxy import Proxy
from fxcore.recording import CONSTANT_TYPES, TracerBase
from fxcore.user_frame import user_frame

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
        frame: ModuleFrame | None = None,
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
        node = assemble(graph, op, target, tuple(node_args), node_kwargs, inputs)
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
