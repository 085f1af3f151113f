"""The answers that Python got about values of one trace with an example; each becomes a guard."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, NamedTuple

from fxcore.errors import TraceError
from fxcore.graph import Graph
from fxcore.guards import Guard, Guards, condition_text, copied_slice, expression_of, note_positions
from fxcore.guided.data_reads import is_free_of_effects
from fxcore.guided.proxies import ExampleProxy, ExampleTensor
from fxcore.node import Node
from fxcore.tracing.call_site import RunningCall, running_call, shown_line, user_frame

_HOW_TO_DECIDE = (
    "Write it without a branch (torch.where, torch.cond), keep it in a leaf (fxcore.wrap, leaf_modules=), or take the "
    "example's branch: fxcore.assume(condition), or assume={{{place!r}: True}}"
)


class _Answer(NamedTuple):
    """A value that Python got."""

    node: Node
    value: Any
    guard: Guard  # without its expression
    call: RunningCall | None = None  # the call in C that asked for an index


class Answers:
    """The answers of one trace, in their order."""

    def __init__(self, tracer: Any, assume: Mapping[str, Any] | None = None) -> None:
        """`assume` maps places, "file.py:line", to whether the example decides about branches on contents there."""
        self._tracer = tracer
        self._assume = dict(assume or {})
        self._answers: list[_Answer] = []
        self.scalars: set[Node] = set()  # nodes with a value that is no tensor, or a tensor of a single number
        self.notes: tuple[str, ...] = ()  # effects of the model that the graph leaves out

    def __len__(self) -> int:
        return len(self._answers)

    def forget_since(self, count: int) -> None:
        """Forget all answers after the first `count`."""
        del self._answers[count:]

    def answer(
        self, proxy: ExampleProxy, convert: Callable[[Any], Any], how: str, frame: FrameType | None = None
    ) -> Any:
        """Return `convert(value)` for the value of a proxy, and note that the graph holds for this value alone.

        `frame` is the caller of a call in C that asks for an index. Raises TraceError (a ValueError) if the contents of
        a tensor decide about the value, unless the user assumes the example's.
        """
        if proxy.is_of_input:
            self._require_assumption(proxy, how)
        value = convert(proxy.example)
        told = value if isinstance(proxy, ExampleTensor) or type(proxy.example) is bool else proxy.example
        node = proxy.node
        if convert is bool and type(proxy.example) is not bool:
            node, told = self._tracer.record_without_running("call_function", bool, (proxy,), {}), value
            self.scalars.add(node)
        self.note(node, told, is_assumed=proxy.is_of_input, call=running_call(frame))
        return value

    def assumed(self, proxy: ExampleProxy) -> bool:
        """Return the truth of a value in the example, and note that the graph holds for this truth alone."""
        value = bool(proxy.example)
        node = self._tracer.record_without_running("call_function", bool, (proxy,), {})
        self.scalars.add(node)
        self.note(node, value, is_assumed=True)
        return value

    def note(self, node: Node, value: Any, *, is_assumed: bool = False, call: RunningCall | None = None) -> None:
        """Note that Python knows the value of a node. `call` is the call in C that asked for the value."""
        outside = self._tracer.inner_graphs.outermost(node)
        if outside is None:
            return
        node = outside
        self._answers.append(_Answer(node, value, self._guard(node, value, is_assumed), call))

    def drop_indices_of_call(self, frame: FrameType) -> None:
        """Forget the indices that a call in C asked for. Because it found proxies, the call itself is recorded.

        `frame` is the frame that the call returns to.
        """
        call = running_call(frame)
        while call is not None and self._answers and self._answers[-1].call == call:
            self._answers.pop()

    def _require_assumption(self, proxy: ExampleProxy, how: str) -> None:
        """Raise TraceError unless the user, or the tracer, assumes the example's answer."""
        node = proxy.node
        guard = self._guard(node, None, True)
        place = f"{guard.file}:{guard.line}"
        if guard.file and any(wanted and place.endswith(key) for key, wanted in self._assume.items()):
            return
        reason = f"The value {node.name!r} ({node.op} {getattr(node.target, '__name__', node.target)}) {how}"
        if self._tracer.note_data_read(guard, reason):
            return
        error = TraceError(
            "symbolically traced variables cannot be used as inputs to control flow\n"
            f"{reason}{self._tracer._place()}\n"
            "It follows from the contents of a tensor, or from a random number, so that other inputs may decide "
            "otherwise. " + _HOW_TO_DECIDE.format(place=os.path.basename(place))
        )
        self._tracer.caught_errors.note(error)
        raise error

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

    def become_guards(self, graph: Graph) -> None:
        """Give the graph its guards, and remove the nodes that only the guards need."""
        seen: dict[str, _Answer] = {}
        for each in self._answers:
            text = condition_text(expression_of(each.node, self.scalars.__contains__), each.value)
            seen.setdefault(text, each)
        nodes = [each.node for each in seen.values()]
        conditions = copied_slice(graph, nodes)
        guards = [replace(each.guard, expression=text) for text, each in seen.items()]
        graph.guards = Guards(guards, conditions, self.notes)
        order = [node.name for node in graph.nodes]
        self._remove_unread(graph, set(nodes))
        note_positions(conditions, order, {node.name for node in graph.nodes})

    def _remove_unread(self, graph: Graph, nodes: set[Node]) -> None:
        for node in reversed(graph.nodes):
            if node in nodes and not node.users and node in self.scalars and is_free_of_effects(node):
                nodes.update(node.all_input_nodes)
                graph.erase_node(node)
