"""Guards: conditions on the inputs of a graph, made where the traced Python asked for a plain value."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType
from typing import Any, Protocol

import torch

from fxcore.graph import Graph
from fxcore.node import Node
from fxcore.operators.syntax import OPERATORS

# Metadata of a node that only conditions need: the name of the last node of the guarded graph before it.
AFTER = "guard_after"

# Questions that Python writes with words.
_WORDS = {operator.is_: "{} is {}", operator.is_not: "{} is not {}", operator.contains: "{1} in {0}"}


@dataclass(frozen=True)
class Guard:
    """One condition: a node of the graph must have its value of the example.

    `expression` is the condition in Python: inputs by name, results of layers by the called layer. Module path,
    function, file, line and source text say where the traced program asked.
    """

    expression: str
    node: str  # name of the node that Python asked about
    value: Any = field(compare=False)
    module_path: str = ""
    function: str = ""
    file: str = ""
    line: int = 0
    source: str = ""
    is_assumed: bool = False  # depends on data, and the user chose the example's branch
    caught: tuple[str, ...] = ()  # names of errors of the call that the traced code catches; it must raise none

    @property
    def place(self) -> str:
        """Return the place that asked: `file:line: source text (in module path)`."""
        where = f"{self.file}:{self.line}" if self.file else ""
        return where + place_suffix(self.source, self.module_path)

    def __str__(self) -> str:
        return self.expression


def place_suffix(source: str, module_path: str) -> str:
    """Return what messages say behind a line's number: `: source text (in module path)`, as far as it is known."""
    return (f": {source}" if source else "") + (f" (in module {module_path!r})" if module_path else "")


class ValuesBeside(Protocol):
    """Values beside the inputs that a graph holds as constants."""

    def __len__(self) -> int:
        """Return the number of values."""

    def first_change(self) -> tuple[Any, Any] | None:
        """Return the first value that has changed, and the present value; None if all are as they were."""


class Guards(Sequence[Guard]):
    """The guards of one graph, each once, in order, with a graph that computes their values."""

    def __init__(
        self,
        guards: Sequence[Guard] = (),
        graph: Graph | None = None,
        notes: Sequence[str] = (),
        *,
        are_enforced: bool = True,
        outer: ValuesBeside | None = None,
    ) -> None:
        """`graph` takes the inputs of the guarded graph, and returns the value for each guard.

        `notes` describe effects of the model that the graph leaves out for all inputs. With `are_enforced`, each run
        of the guarded graph checks the guards. `outer` are values beside the inputs that the trace read. They are no
        part of prints and pickles, because another process cannot ask for them.
        """
        self._guards = tuple(guards)
        self.graph = graph
        self.notes = tuple(notes)
        self.are_enforced = are_enforced
        self.outer = outer

    @property
    def are_checked(self) -> bool:
        """Whether there is something to check in each run."""
        return self.graph is not None and bool(self._guards or self.outer)

    def __getitem__(self, index: Any) -> Any:
        return self._guards[index]

    def __len__(self) -> int:
        return len(self._guards)

    def __repr__(self) -> str:
        return f"Guards({[guard.expression for guard in self._guards]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guards) and self._guards == other._guards

    def __hash__(self) -> int:
        return hash(self._guards)

    def lines(self) -> list[str]:
        """Return the guards, each with its place, and the notes, as people read them."""
        lines = [
            f"{'assumed' if each.is_assumed else 'guard'}: {each.expression}"
            + (f" ({each.place})" if each.place else "")
            for each in self._guards
        ]
        return [*lines, *[f"note: {note}" for note in self.notes]]


def enforce(graph: Graph, are_enforced: bool | None) -> None:
    """Let runs of a graph check its guards, or not. None leaves the graph as it is."""
    guards = graph.guards
    if are_enforced is not None and isinstance(guards, Guards):
        graph.guards = Guards(guards, guards.graph, guards.notes, are_enforced=are_enforced, outer=guards.outer)


def take_guards(source: Any, graph: Graph) -> None:
    """Give a graph the guards of `source`, the graph of the graph module that the graph was traced from again."""
    if not isinstance(source, Graph) or not isinstance(source.guards, Guards):
        return
    graph.guards = source.guards
    before, after = list(source.nodes), list(graph.nodes)
    if [(node.op, node.target) for node in before] == [(node.op, node.target) for node in after]:
        names = {old.name: new.name for old, new in zip(before, after, strict=True)}
        graph._moved_values = source.moved_values.renamed(names)


def refusal(guards: Guards, index: int, found: Any, name: str, free_sizes: str) -> str:
    """Return the message about a guard that does not hold. `found` is the value, or the error of its computation."""
    guard = guards[index]
    place = f"; asked at {guard.place}" if guard.place else ""
    if isinstance(found, Exception) and guard.caught:
        shown = f"it raises {type(found).__name__}: {_shown(found)}"
    elif isinstance(found, Exception):
        shown = f"it cannot be computed ({type(found).__name__}: {_shown(found)})"
    else:
        # The guard of a condition that was False in the example states the opposite, so its value reads False.
        shown = f"it is {'False' if guard.value is False and found is True else _shown(found)}"
    cure = "\nThese sizes are free: " + free_sizes if free_sizes else ""
    return (
        f"the graph of {name} does not hold for these inputs, which break guard {index + 1} of {len(guards)}:\n"
        f"  {guard.expression}: {shown}{place}\n"
        "The trace followed its example there. Trace the model with an example like these inputs, change the line so "
        "that it asks for no value, or keep the line in a leaf (leaf_modules=, fxcore.wrap); enforce_guards=False runs "
        f"the graph without checks{cure}"
    )


def refusal_of_change(value: Any, found: Any, name: str) -> str:
    """Return the message about a value beside the inputs that has changed; `found` is the present value."""
    expected, now = value.shown_change(found)
    return (
        f"the graph of {name} does not hold any more, because a value beside its inputs has changed since the trace:\n"
        f"  {value.text}: it is {now}, and was {expected}; read at {value.place}\n"
        "The graph has the value of the trace as a constant. Trace the model again, put the value back, or pass it as "
        "an input; enforce_guards=False runs the graph without checks"
    )


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Exception) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_same(expected: Any, obtained: Any) -> bool:
    """Return whether a value is the example's. NaN is the same as NaN."""
    if expected is None or isinstance(expected, (bool, enum.Enum, type)):
        return expected is obtained
    try:
        return bool(expected == obtained) or (expected != expected and obtained != obtained)
    except Exception:  # values of other kinds cannot be compared
        return False


def needed_nodes(nodes: Sequence[Node]) -> set[Node]:
    """Return the nodes that the values of some nodes depend on, and these nodes."""
    needed: set[Node] = set()
    unvisited = list(nodes)
    while unvisited:
        node = unvisited.pop()
        if node not in needed:
            needed.add(node)
            unvisited += node.all_input_nodes
    return needed


def copied_slice(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Return a graph with the same inputs that computes the values of some nodes, and nothing else."""
    needed = needed_nodes(nodes)
    copied = Graph()
    copied._codegen = graph._codegen
    values: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in needed or node.op == "placeholder":
            values[node] = copied.node_copy(node, values.__getitem__)
    copied.output(tuple([values[node] for node in nodes]))
    return copied


def note_positions(conditions: Graph, order: Sequence[str], kept: Collection[str]) -> None:
    """Record, for each node that only the conditions need, the last node of the guarded graph before it.

    `order` are the names of all nodes of the trace in order, `kept` the names of the nodes that the guarded graph kept.
    A write after this position must not change the answer.
    """
    last_kept = ""
    position = {}
    for name in order:
        if name in kept:
            last_kept = name
        else:
            position[name] = last_kept
    for node in conditions.nodes:
        if node.name in position:
            node.meta[AFTER] = position[node.name]


def is_path(node: Node) -> bool:
    """Return whether a node reads an input, or a part of one."""
    while node.target in (operator.getitem, getattr) and isinstance(node.args[0], Node):
        node = node.args[0]
    return node.op == "placeholder"


def expression_of(node: Node, is_inlined: Callable[[Node], bool]) -> str:
    """Return the computation of a node's value as Python. A node that is not inlined is shown as its call.

    It holds no names of nodes, because names change when a node is added before.
    """
    if node.op == "placeholder":
        return str(node.target).lstrip("*")
    if not is_inlined(node):
        return called_text(node)
    texts = [_argument_text(item, is_inlined) for item in node.args]
    texts_of_keywords = [f"{name}={_argument_text(item, is_inlined)}" for name, item in node.kwargs.items()]
    if node.op == "call_method":
        return f"{_in_brackets(texts[0])}.{node.target}({', '.join([*texts[1:], *texts_of_keywords])})"
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.target is getattr and len(node.args) == 2:
        return f"{_in_brackets(texts[0])}.{node.args[1]}"
    if node.target in _WORDS and len(node.args) == 2:
        return _WORDS[node.target].format(*texts)
    name = getattr(node.target, "__name__", str(node.target))
    template = OPERATORS.get(name) if getattr(node.target, "__module__", "") == "_operator" else None
    if template is not None and template.count("{}") == len(texts):
        if name == "getitem":
            return template.format(*texts)
        return template.format(*[_in_brackets(text) for text in texts])
    return f"{name}({', '.join([*texts, *texts_of_keywords])})"


def called_text(node: Node) -> str:
    """Return the call that a node makes, without its arguments."""
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.op == "call_module":
        return f"self.{node.target}(...)"
    name = str(node.target) if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
    return f"{name}(...)"


def _argument_text(argument: Any, is_inlined: Callable[[Node], bool]) -> str:
    if isinstance(argument, Node):
        return expression_of(argument, is_inlined)
    if isinstance(argument, (tuple, list)):
        inner = ", ".join([_argument_text(item, is_inlined) for item in argument])
        if isinstance(argument, list):
            return f"[{inner}]"
        return f"({inner},)" if len(argument) == 1 else f"({inner})"
    if isinstance(argument, slice):
        parts = (argument.start, argument.stop, argument.step)
        texts = ["" if part is None else _argument_text(part, is_inlined) for part in parts]
        return ":".join(texts if texts[2] else texts[:2])
    return _value_text(argument)


def _value_text(value: Any) -> str:
    """Return a plain value as Python writes it: classes, functions and members of enums by their names."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        is_torch = value is torch.Tensor
        return f"torch.{value.__name__}" if is_torch else value.__qualname__.rpartition("<locals>.")[2]
    return repr(value)


def _in_brackets(text: str) -> str:
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == " " and not depth:
            return f"({text})"
    return text


def condition_text(expression: str, value: Any) -> str:
    """Return the condition that an expression has a value: `n > 2` for True, `n <= 2` for False, else `n == 16`."""
    if value is True:
        return expression
    if value is False:
        return negated(expression)
    if value is None or isinstance(value, (enum.Enum, type)):
        return f"{expression} is {_value_text(value)}"
    return f"{expression} == {value!r}"


def with_text(guard: Guard, node: Node, scalars: Collection[Node]) -> Guard:
    """Return a guard of a node's value with its text. Only `scalars` and parts of inputs are shown as computed."""
    if guard.caught:
        return replace(guard, expression=f"{called_text(node)} raises no {' or '.join(guard.caught)}")
    expression = expression_of(node, lambda each: each in scalars or is_path(each))
    return replace(guard, expression=condition_text(expression, guard.value))


_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "is": "is not", "in": "not in"}


def negated(expression: str) -> str:
    """Return the opposite of a condition, in the usual notation."""
    depth, found = 0, []
    words = expression.split(" ")
    for index, word in enumerate(words):
        if depth == 0 and index and word in _OPPOSITES:
            found.append(index)
        depth += sum(map(word.count, "([")) - sum(map(word.count, ")]"))
    if len(found) == 1:
        words[found[0]] = _OPPOSITES[words[found[0]]]
        return " ".join(words)
    return f"not {_in_brackets(expression)}"
