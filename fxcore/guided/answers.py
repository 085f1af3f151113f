"""The answers that Python got about values of one trace with an example: guards, assumptions, texts of assertions."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

import torch

from fxcore.errors import TraceError
from fxcore.graph import Graph
from fxcore.guards import Guard, Guards, copied_slice, is_path, note_positions, with_text
from fxcore.guided.data_reads import is_free_of_effects
from fxcore.guided.proxies import ExampleProxy, ExampleTensor
from fxcore.node import Node
from fxcore.operators.effects import effects_of
from fxcore.state.outer_values import OuterValues
from fxcore.tracing.call_site import RunningCall, running_call, shown_line, user_frame

_OF_GRAD_MODE = ("is_grad_enabled", "is_inference_mode_enabled")
_MAKES_NUMBER = (int, float, complex, operator.index)
_T = TypeVar("_T")
_FIRST_NUMBER = 6_180_339_887_000_000  # `%d` writes digits alone; these stand for the values written first, second, ...
_NUMBER = re.compile(r"6180339887\d{6}")
_MARK = "\u2063"  # invisible; it stands before and behind the text of a value in an assertion
_HOW_TO_DECIDE = (
    "Write it without a branch (torch.where, torch.cond), keep it in a leaf (fxcore.wrap, leaf_modules=), or take the "
    "example's branch: fxcore.assume(condition), or assume={{{place!r}: True}}"
)


class _Answer(NamedTuple):
    """A value that Python got."""

    node: Node
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
        self.differentiable: set[Node] = set()  # nodes with a value that could need a gradient
        self.dispensable: set[Node] = set()  # nodes that were made before Python needed them
        self.switched = {"grad": 0, "autocast": 0}  # modes -> how many `with` blocks of the traced code hold them
        self._training: dict[str, tuple[bool, Guard]] = {}  # path of a module -> its mode, and the place that asked
        self._began_with_grad = torch.is_grad_enabled()
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
        # A tensor may have had another value before its readers wrote to it.
        is_read = isinstance(proxy, ExampleTensor) and convert in _MAKES_NUMBER and bool(node.users)
        if is_read or (convert is bool and type(proxy.example) is not bool):
            node, told = self._tracer.record_without_running("call_function", convert, (proxy,), {}), value
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
        self._answers.append(_Answer(node, self._guard(node.name, value, is_assumed), call))

    def note_caught(self, node: Node, errors: tuple[str, ...]) -> None:
        """Note that the traced code catches these errors of a node's call, which raised none."""
        guard = replace(self._guard(node.name, errors, False), caught=errors)
        self._answers.append(_Answer(node, guard))

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
        guard = self._guard(node.name, None, True)
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

    def _guard(self, name: str, value: Any, is_assumed: bool) -> Guard:
        """Return a guard without its expression, for the place that runs."""
        path = getattr(getattr(self._tracer, "scope", None), "module_path", "")
        questions = self._tracer.questions
        frame = user_frame() if questions.code_runs else None
        code: CodeType = questions.root_code if frame is None else frame.f_code
        line = code.co_firstlineno if frame is None else frame.f_lineno
        source = shown_line(code.co_filename, line, None if frame is None else frame.f_globals).partition(": ")[2]
        function = getattr(code, "co_qualname", code.co_name)
        return Guard("", name, value, path, function, code.co_filename, line, source, is_assumed)

    def note_mode(self, question: Callable[..., Any], args: Any, kwargs: Any, answer: Any) -> None:
        """Note the answer to a question about a mode, unless the traced code switched the mode itself."""
        name = question.__name__
        mode = "autocast" if "autocast" in name else "grad" if name in _OF_GRAD_MODE else ""
        if self.switched.get(mode) or (name == "is_grad_enabled" and answer != self._began_with_grad):
            return
        node = self._tracer.create_node("call_function", question, args, kwargs)
        self.scalars.add(node)
        self.note(node, answer)

    def note_training(self, module: Any, value: bool) -> None:
        """Note that Python knows whether a module is in train mode."""
        path = self._tracer.submodule_paths[module]
        if path not in self._training:
            self._training[path] = (value, self._guard("", value, False))

    def become_guards(self, graph: Graph, outer: OuterValues | None) -> None:
        """Give the graph its guards, and remove the nodes that only the guards need."""
        answers = [*self._answers_about_training(graph), *self._answers]
        numbers = ValueNumbers(graph, self.scalars)
        seen: dict[Any, _Answer] = {}
        for each in answers:
            value = each.guard.value
            seen.setdefault((numbers.number_of(each.node), type(value), repr(value)), each)
        conditions = copied_slice(graph, [each.node for each in seen.values()])
        guards = [with_text(each.guard, each.node, self.scalars) for each in seen.values()]
        graph.guards = Guards(guards, conditions, self.notes, outer=outer)
        order = [node.name for node in graph.nodes]
        self._remove_unread(graph, {each.node for each in answers} | self.dispensable)
        note_positions(conditions, order, {node.name for node in graph.nodes})

    def _answers_about_training(self, graph: Graph) -> Iterator[_Answer]:
        """Yield the modes of modules: one answer for all modules in train mode, and one for all others."""
        if not self._training:
            return
        first = next(node for node in graph.nodes if node.op != "placeholder")
        for mode in (True, False):
            told = {path: guard for path, (value, guard) in self._training.items() if value is mode}
            if told:
                with graph.inserting_before(first):
                    nodes = [graph.create_node("get_attr", f"{path}.training".lstrip("."), (), {}) for path in told]
                    node = nodes[0]
                    if len(nodes) > 1:
                        node = graph.create_node("call_function", all if mode else any, (nodes,), {})
                self.scalars.update(nodes, (node,))
                yield _Answer(node, replace(next(iter(told.values())), node=node.name))

    def _remove_unread(self, graph: Graph, nodes: set[Node]) -> None:
        for node in reversed(graph.nodes):
            if node not in nodes or node.users or not (node in self.scalars or is_path(node)):
                continue
            if node.op != "placeholder" and is_free_of_effects(node):
                nodes.update(node.all_input_nodes)
                graph.erase_node(node)


def assume(condition: _T) -> _T | bool:
    """Return `condition`. A trace with an example returns its truth in the example, and makes it a guard of the graph.

    Write it around a condition on the contents of tensors, `if fxcore.assume(x.min() >= 0): ...`, if the graph need not
    hold for inputs that decide otherwise. A call of the graph refuses these inputs.
    """
    if isinstance(condition, ExampleProxy):
        return bool(condition.tracer.answers.assumed(condition))
    return condition


class Messages:
    """The values that were written into texts of assertions while a trace runs.

    The graph writes the texts anew in each run, with the values of the run.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._parts: list[tuple[str, ExampleProxy, str]] = []  # marked text, value and field of a format

    def part(self, proxy: ExampleProxy, field: str) -> str:
        """Return the marked text of a value. `field` is its place in a format: `{}`, `{!r}`, `{:>3}`."""
        text = field.format(proxy.example)
        self._parts.append((text, proxy, field))
        return f"{_MARK}{text}{_MARK}"

    def number(self, proxy: ExampleProxy) -> int:
        """Return a number that marks the place of a value in a text: `%d` takes no text."""
        self._parts.append((str(proxy.example), proxy, "{}"))
        return _FIRST_NUMBER + len(self._parts) - 1

    def _marked(self, number: re.Match[str]) -> str:
        text, _, _ = self._parts[int(number[0]) - _FIRST_NUMBER]
        return f"{_MARK}{text}{_MARK}"

    def argument(self, text: str) -> str | Node:
        """Return the argument of a node for a text: a node that writes it, if a value was written into it."""
        pieces = _NUMBER.sub(self._marked, text).split(_MARK)
        written, self._parts = self._parts[-(len(pieces) // 2) :], []
        if len(pieces) < 3 or [each for each, _, _ in written] != pieces[1::2]:
            return "".join(pieces)
        fields = ["{}" if field == "{:}" else field for _, _, field in written]
        constants = [each.replace("{", "{{").replace("}", "}}") for each in pieces[::2]]
        template = "".join([part for pair in zip(constants, fields, strict=False) for part in pair]) + constants[-1]
        arguments = (template, *[proxy.node for _, proxy, _ in written])
        return self._tracer.create_node("call_method", "format", arguments, {})  # type: ignore[no-any-return]


def has_marks(text: str) -> bool:
    """Return whether a value was written into a text of an assertion."""
    return _MARK in text or _NUMBER.search(text) is not None


# Equal questions.

_READS = (operator.getitem, getattr)


class ValueNumbers:
    """Equal numbers for nodes that compute a plain value in the same way from the same values.

    A value that is read before a write and again behind it has two numbers.
    """

    def __init__(self, graph: Graph, scalars: Collection[Node]) -> None:
        self._numbers: dict[Node, Hashable] = {}
        known: dict[Any, int] = {}
        structure = contents = 0
        for node in graph.nodes:
            effects = effects_of(node.op, node.target)
            if node in scalars or (node.op == "call_function" and node.target in _READS):
                asks_structure = effects.asks or "takes_part" in effects.facts
                reads = any(each not in scalars for each in node.all_input_nodes) or node.op == "get_attr"
                epoch = 0 if not reads else (structure,) if asks_structure else (structure, contents)
                key = (node.op, node.target, self._numbered((node.args, node.kwargs)), epoch)
                if node.op != "placeholder" and "random" not in effects.kinds:
                    self._numbers[node] = known.setdefault(key, len(known))
            mutates = node.op == "call_method" and "mutates" in effects.facts
            if mutates or "changes_attributes" in effects.facts or "changes_items" in effects.facts:
                structure += 1
            elif effects.writes:
                contents += 1

    def number_of(self, node: Node) -> Hashable:
        """Return the number of a node; the node itself if it computes something else than a plain value."""
        return self._numbers.get(node, node)

    def _numbered(self, argument: Any) -> Hashable:
        if isinstance(argument, Node):
            return self.number_of(argument)
        if isinstance(argument, dict):
            return tuple([(name, self._numbered(item)) for name, item in argument.items()])
        if isinstance(argument, (tuple, list)):
            return (type(argument), *[self._numbered(item) for item in argument])
        if isinstance(argument, slice):
            return self._numbered((slice, argument.start, argument.stop, argument.step))
        return (type(argument), repr(argument))
