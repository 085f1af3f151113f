"""One trace with an example: it runs each call on the example's values, and notes what Python was told of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import FrameType
from typing import Any

import torch

from fxcore.errors import TraceError
from fxcore.graph import Graph
from fxcore.guards import Guard, Guards, condition_text, copied_slice, expression_of
from fxcore.guided.arguments import holds_proxies, restored_object, value_of
from fxcore.guided.assigned_attributes import AssignedAttributes
from fxcore.guided.data_reads import Origin, is_free_of_effects, origin_of
from fxcore.guided.inputs import ExampleInputs
from fxcore.guided.other_sizes import OtherSizes, can_be_repeated
from fxcore.guided.proxies import PLAIN_TYPES, TEXT_TYPES, ExampleProxy, ExampleTensor, proxy_of
from fxcore.guided.written_tensors import WrittenTensors
from fxcore.immutable_collections import immutable_dict
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.tracing import module_hooks
from fxcore.tracing.call_site import shown_line, user_frame
from fxcore.tracing.tracer_base import SymbolicValue, TracerBase

_HOW_TO_DECIDE = (
    "Write it without a branch (torch.where, torch.cond), keep it in a leaf (fxcore.wrap, leaf_modules=), or take the "
    "example's branch: fxcore.assume(condition), or assume={{{place!r}: True}}"
)


@dataclass
class _Specialisation:
    """A value that Python was told."""

    node: Node
    value: Any
    frame: FrameType | None  # of the call in C that asked for an index
    position: int
    guard: Guard


class ExampleTrace:
    """What one trace knows from its example; `tracer` records with it."""

    def __init__(self, tracer: Any, inputs: ExampleInputs, assume: Mapping[str, Any] | None = None) -> None:
        self._tracer = tracer
        self.inputs = inputs
        self._assume = dict(assume or {})
        self._specialised: list[_Specialisation] = []
        self._other_sizes = OtherSizes()
        self._assigned = AssignedAttributes(tracer.root)
        self.notes: tuple[str, ...] = ()  # of what the model does and the graph does not
        self.written = WrittenTensors(tracer, self.proxy_of_state)
        self._with_gradient: set[Node] = set()
        self._scalars: set[Node] = set()  # nodes whose value is no tensor, or one of a single number

    # Recording.

    def create_proxy(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: Any, type_expr: Any
    ) -> Any:
        """Run a call on the example's values, record it, and return a proxy for its result."""
        args, kwargs = self.written.arguments(kind, target, args, kwargs)
        value, origin = self._run(kind, target, args, kwargs)
        node = self.record(kind, target, args, kwargs, name, type_expr)
        if isinstance(value, PLAIN_TYPES):
            if kind == "placeholder" or origin.is_data:
                self._note(node, value, None)
            return value
        proxy = proxy_of(self._tracer, node, value, *origin)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            self._with_gradient.add(node)
        if not isinstance(value, torch.Tensor) or value.dim() == 0:
            self._scalars.add(node)
        if kind == "placeholder" and target in self.inputs.left_at_default:
            self._note(node, value, None)
            return value
        if isinstance(value, TEXT_TYPES):
            return self.specialised(proxy, lambda value: value, "was read")
        return proxy

    def has_gradient(self, node: Node) -> bool:
        """Tell whether gradients flow through the value of a node, or to parameters of the module that it calls."""
        if node.op != "call_module":
            return node in self._with_gradient
        return any(each.requires_grad for each in self._tracer.root.get_submodule(node.target).parameters())

    def proxy_of_state(self, node: Node, value: torch.Tensor) -> ExampleProxy:
        """Return a proxy for a tensor that a node reads from the model."""
        return proxy_of(self._tracer, node, value, False, False)

    def record(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Record a call without running it."""
        node: Node = TracerBase.create_proxy(
            self._tracer, kind, target, args, kwargs, name, type_expr, lambda made: made
        )
        if target is getattr:
            self._scalars.add(node)
        return node

    def _run(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Origin]:
        """Return what a call gives on the example's values, and what the contents of inputs decide about it."""
        if kind == "placeholder":
            return self.inputs.by_target[target], Origin(False, True)
        with module_hooks.suspended():
            if kind == "get_attr":
                return get_attribute(self._tracer.root, target), Origin(False, False)
            call = target if kind == "call_function" else self._call_of(kind, target)
            value = call(*value_of(args), **{key: value_of(item) for key, item in kwargs.items()})

            def other_result(name: str) -> Any:
                again = call if can_be_repeated(kind, target, self._tracer.root, args) else None
                return self._other_sizes.result_of(again, name, args, kwargs, value)

            return value, origin_of(kind, target, args, kwargs, value, other_result)

    def _call_of(self, kind: str, target: Any) -> Callable[..., Any]:
        """Return what a call of a method, or of a module, calls."""
        if kind == "call_method":
            return lambda owner, *rest, **kwargs: getattr(owner, target)(*rest, **kwargs)
        return self._tracer.root.get_submodule(target)  # type: ignore[no-any-return]  # the root is a module

    def argument_of(self, value: Any, ordinary: Callable[[Any], Any]) -> Any:
        """Return what stands for an object that is no ordinary argument: a call that makes one like it."""
        if type(value) is type(torch.FloatTensor):  # the old name of a dtype on a device, which is taken as text, too
            return f"{value.__module__}.{value.__name__}"
        if isinstance(value, (SymbolicValue, torch.nn.Module, type)):
            return ordinary(value)
        if type(value).__module__ == "numpy" and getattr(value, "ndim", False):
            return self._array(value, ordinary)
        if is_dataclass(value):
            kwargs = {item.name: self._tracer.create_arg(getattr(value, item.name)) for item in fields(value)}
            return self._tracer.create_node("call_function", type(value), (), kwargs)
        if isinstance(value, dict) and type(value) is not immutable_dict:
            held = {key: self._tracer.create_arg(item) for key, item in value.items()}
            return self._tracer.create_node("call_function", type(value), (held,), {})
        if hasattr(value, "__fx_create_arg__") or not holds_proxies(value):
            return ordinary(value)
        kind = type(value)
        state = {name: self._tracer.create_arg(item) for name, item in vars(value).items()}
        return self._tracer.create_node(
            "call_function", restored_object, (f"{kind.__module__}:{kind.__qualname__}", state), {}
        )

    def _array(self, value: Any, ordinary: Callable[[Any], Any]) -> Any:
        """Return a node that gives an array of numpy, of which the model keeps the numbers as a tensor."""
        try:
            held = torch.tensor(value.copy())  # of strides that torch knows
        except TypeError:  # an array of something else than numbers
            return ordinary(value)
        return self._tracer.create_node("call_method", "numpy", (self._tracer.create_arg(held),), {})

    # What Python is told.

    def specialised(
        self, proxy: ExampleProxy, convert: Callable[[Any], Any], how: str, frame: FrameType | None = None
    ) -> Any:
        """Return `convert(value)` for the value of a proxy, and note that the graph holds for this value alone.

        Raises TraceError (a ValueError) if the contents of a tensor decide about it, unless the user assumes it.
        """
        is_assumed = False
        if proxy.is_of_input:
            self._require_assumption(proxy, how)
            is_assumed = True
        value = convert(proxy.example)
        told = value if isinstance(proxy, ExampleTensor) or type(proxy.example) is bool else proxy.example
        node = proxy.node
        if convert is bool and type(proxy.example) is not bool:
            node, told = self.record("call_function", bool, (proxy,), {}), value
            self._scalars.add(node)
        self._note(node, told, frame, is_assumed)
        return value

    def assumed(self, proxy: ExampleProxy) -> bool:
        """Return the truth of a value in the example, and note that the graph holds only where it is the same."""
        value = bool(proxy.example)
        self._note(self.record("call_function", bool, (proxy,), {}), value, None, True)
        return value

    def drop_indices_of_call(self, frame: FrameType) -> None:
        """Forget the indices that a call in C asked for: it has now found that they are proxies, and is recorded."""
        caller = _outside_of_fxcore(frame)
        while self._specialised:
            last = self._specialised[-1]
            if last.frame is None or caller is None or last.frame is not caller or last.position != caller.f_lasti:
                return
            self._specialised.pop()

    @property
    def noted(self) -> int:
        """How many values Python was told so far."""
        return len(self._specialised)

    def forget_since(self, noted: int) -> None:
        """Forget what was noted after the first so many."""
        del self._specialised[noted:]

    def _require_assumption(self, proxy: ExampleProxy, how: str) -> None:
        """Raise TraceError unless the user, or the tracer, takes the example's word for it."""
        node = proxy.node
        guard = self._guard(node, None, True)
        place = f"{guard.file}:{guard.line}"
        if guard.file and any(wanted and place.endswith(key) for key, wanted in self._assume.items()):
            return
        reason = f"The value {node.name!r} ({node.op} {getattr(node.target, '__name__', node.target)}) {how}"
        if self._tracer.note_data_read(guard, reason):
            return
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow\n"
            f"{reason}{self._tracer._place()}\n"
            "It follows from the contents of a tensor, or from a random number, so that other inputs may decide "
            "otherwise. " + _HOW_TO_DECIDE.format(place=os.path.basename(place))
        )

    def _note(self, node: Node, value: Any, frame: FrameType | None, is_assumed: bool = False) -> None:
        caller = None if frame is None else _outside_of_fxcore(frame)
        position = -1 if caller is None else caller.f_lasti
        self._specialised.append(_Specialisation(node, value, caller, position, self._guard(node, value, is_assumed)))

    def _guard(self, node: Node, value: Any, is_assumed: bool) -> Guard:
        """Return a guard without its expression, for the place that runs."""
        path = getattr(getattr(self._tracer, "scope", None), "module_path", "")
        frame = user_frame()
        if frame is None:
            return Guard("", node.name, value, path, is_assumed=is_assumed)
        code = frame.f_code
        source = shown_line(code.co_filename, frame.f_lineno, frame.f_globals).partition(": ")[2]
        function = getattr(code, "co_qualname", code.co_name)
        return Guard("", node.name, value, path, function, code.co_filename, frame.f_lineno, source, is_assumed)

    # The end of the trace.

    def record_assignments(self) -> None:
        """Let the graph write what the traced code assigned to attributes of the model, as far as it can."""
        self.notes = self._assigned.record(self._tracer)

    def finish(self, graph: Graph) -> None:
        """Give the graph its guards, and remove the nodes that only they need."""
        seen: dict[str, _Specialisation] = {}
        for each in self._specialised:
            text = condition_text(expression_of(each.node, self._scalars.__contains__), each.value)
            seen.setdefault(text, each)
        noted = list(seen.values())
        conditions = copied_slice(graph, [each.node for each in noted])
        guards = [
            Guard(text, *[getattr(each.guard, item.name) for item in fields(Guard)[1:]]) for text, each in seen.items()
        ]
        graph.guards = Guards(guards, conditions, self.notes)
        self._remove_unread(graph, {each.node for each in noted})

    def _remove_unread(self, graph: Graph, nodes: set[Node]) -> None:
        for node in reversed(graph.nodes):
            if node in nodes and not node.users and node in self._scalars and is_free_of_effects(node):
                nodes.update(node.all_input_nodes)
                graph.erase_node(node)


def _outside_of_fxcore(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame, from this one on, that is not fxcore's own."""
    while frame is not None and frame.f_code.co_filename.startswith(_FXCORE):
        frame = frame.f_back
    return frame


_FXCORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
