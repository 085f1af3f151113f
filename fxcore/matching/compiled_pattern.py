"""A pattern laid out as the steps in which a place is compared with it, so that a comparison looks nothing up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxcore.matching.comparison import is_convex, nodes_in
from fxcore.matching.literals import constants_equal, slice_parts
from fxcore.node import Node

# What is to be found in the arguments of a node that was found before.
OPERATION, INPUT, KNOWN, CONSTANT, SEQUENCE, MAPPING, SLICE = range(7)


class Call(NamedTuple):
    """What a node must be like to stand for an operation of the pattern."""

    op: str
    target: Any
    positional: int
    keywords: tuple[str, ...]
    node: Node
    # Asked in place of comparing targets where these do not say everything.
    are_alike: Callable[[Node, Node], bool] | None


class Step(NamedTuple):
    """One comparison: what there is to be at `key` of the `part`-th thing that was opened."""

    kind: int
    part: int
    key: int
    # A Call, the number of a node that is known, a constant, or a container's length or keys.
    wanted: Any


@dataclass(slots=True)
class Climb:
    """The comparison that begins at one last node of the pattern, after those that began at the ones before it."""

    sink: Call
    # How many nodes were found, and how many things opened, before.
    nodes_before: int
    parts_before: int
    steps: list[Step] = field(default_factory=list)


class CompiledPattern:
    """The steps for a pattern whose arguments are paired as they are written."""

    def __init__(self, sinks: Sequence[Node], are_alike: Callable[[Node, Node], bool], *, by_path: bool) -> None:
        """Lay out the steps upwards from `sinks`, which are operations.

        `are_alike` compares modules, unless they are compared `by_path`, and attributes.
        """
        self.order: list[Node] = []  # nodes of the pattern as they are found
        self.climbs: list[Climb] = []
        self._are_alike = are_alike
        self._by_path = by_path
        self.number: dict[Node, int] = {}  # the place of a node in that order
        self._parts = 0
        for sink in sinks:
            self._lay_out(sink)

    def _lay_out(self, sink: Node) -> None:
        climb = Climb(self._call(sink), len(self.order), self._parts)
        self.climbs.append(climb)
        self._find(sink)
        # Arguments still to be laid out, the next one last: the order is that of a walk from the left.
        pending = self._opened(sink)
        while pending:
            part, key, argument = pending.pop()
            kind, wanted, inside = self._step(argument)
            climb.steps.append(Step(kind, part, key, wanted))
            pending += inside

    def _step(self, argument: Any) -> tuple[int, Any, list[tuple[int, int, Any]]]:
        """Return kind and expectation for an argument, and what is to be compared inside of it."""
        if isinstance(argument, Node):
            if argument in self.number:
                return KNOWN, self.number[argument], []
            self._find(argument)
            if argument._op == "placeholder":
                return INPUT, None, []
            return OPERATION, self._call(argument), self._opened(argument)
        if not nodes_in(argument):
            return CONSTANT, argument, []
        if isinstance(argument, dict):
            return MAPPING, argument.keys(), self._open(list(argument.values()))
        if isinstance(argument, slice):
            return SLICE, None, self._open(slice_parts(argument))
        return SEQUENCE, len(argument), self._open(argument)

    def _find(self, node: Node) -> None:
        self.number[node] = len(self.order)
        self.order.append(node)

    def _opened(self, node: Node) -> list[tuple[int, int, Any]]:
        return self._open((*node._args, *node._kwargs.values()))

    def _open(self, items: Sequence[Any]) -> list[tuple[int, int, Any]]:
        part, self._parts = self._parts, self._parts + 1
        return [(part, key, items[key]) for key in reversed(range(len(items)))]

    def _call(self, node: Node) -> Call:
        says_all = node._op in ("call_function", "call_method") or (node._op == "call_module" and self._by_path)
        are_alike = None if says_all else self._are_alike
        return Call(node._op, node._target, len(node._args), tuple(node._kwargs), node, are_alike)


class QuickCorrespondence:
    """Says what `Correspondence` says, with less to do at each place.

    Nodes of a laid-out pattern are found in one order, so a list of what was found is all that there is to remember.
    """

    def __init__(
        self, pattern: CompiledPattern, returned: Collection[Node], off_limits: Container[Node], ignores_literals: bool
    ) -> None:
        """Begin with nothing found. `returned` are the pattern's results; nodes `off_limits` stand for no operation."""
        self._pattern = pattern
        self._off_limits = off_limits
        self._ignores_literals = ignores_literals
        self._values: list[Any] = []
        # The arguments of each operation that was found, and the containers among these.
        self._parts: list[Any] = []
        self._climbs = {climb.sink.node: climb for climb in pattern.climbs}
        self._parts_at = {climb.nodes_before: climb.parts_before for climb in pattern.climbs}
        numbers = range(len(pattern.order))
        self._operations = [number for number in numbers if pattern.order[number]._op != "placeholder"]
        self._inputs = [number for number in numbers if pattern.order[number]._op == "placeholder"]
        # Values that are not returned, and how many operations of the pattern read them: nobody else may.
        private = [number for number in self._operations if pattern.order[number] not in returned]
        self._private = [(number, len(pattern.order[number].users)) for number in private]
        self._leaving = [number for number in self._operations if pattern.order[number] in returned]
        # All operations are above the only last one: what comes of its value cannot be an input of any.
        self._may_come_back = bool(self._leaving) and (len(pattern.climbs) > 1 or self._leaving != [0])

    def __len__(self) -> int:
        """Return how many nodes of the pattern were found."""
        return len(self._values)

    def get(self, expected: Node) -> Any:
        """Return what stands for a node of the pattern, None if nothing does yet."""
        number = self._pattern.number.get(expected)
        return self._values[number] if number is not None and number < len(self._values) else None

    def as_map(self) -> dict[Node, Any]:
        """Return from nodes of the pattern, in the order in which they were found, what stands for them."""
        return dict(zip(self._pattern.order, self._values, strict=False))

    def extend(self, expected: Node, obtained: Node, is_alike: bool = True) -> bool:
        """Take in that `obtained`, which does the same, stands for a last node of the pattern, with all that they read.

        Change nothing if it cannot.
        """
        climb = self._climbs[expected]
        taken = {value for value in self._values if type(value) is Node} if self._values else set()
        if obtained in taken or obtained in self._off_limits or not self._open(climb.sink, obtained):
            return False
        taken.add(obtained)
        if self._follow(climb.steps, taken):
            return True
        self.cut_back(climb.nodes_before)
        return False

    def cut_back(self, size: int) -> None:
        """Forget what was taken in after the first `size` nodes, which are those above earlier last nodes."""
        del self._values[size:], self._parts[self._parts_at[size] :]

    def _open(self, call: Call, node: Node) -> bool:
        args, kwargs = node._args, node._kwargs
        if len(args) != call.positional:
            return False
        if kwargs or call.keywords:
            if tuple(kwargs) != call.keywords:
                return False
            args = (*args, *kwargs.values())
        self._values.append(node)
        self._parts.append(args)
        return True

    def _follow(self, steps: Iterable[Step], taken: set[Node]) -> bool:
        """Compare step by step; nodes that are `taken` stand for something else."""
        values, parts, off_limits = self._values, self._parts, self._off_limits
        for kind, part, key, wanted in steps:
            theirs = parts[part][key]
            if kind == OPERATION:
                if type(theirs) is not Node or theirs in taken or theirs in off_limits:
                    return False
                op, target, _, _, expected, are_alike = wanted
                if are_alike is not None:
                    if not are_alike(expected, theirs):
                        return False
                elif theirs._op != op or not (target is theirs._target or target == theirs._target):
                    return False
                if not self._open(wanted, theirs):
                    return False
                taken.add(theirs)
            elif kind == INPUT:
                if type(theirs) is Node:
                    if theirs in taken:
                        return False
                    taken.add(theirs)
                values.append(theirs)
            elif kind == KNOWN:
                if theirs is not values[wanted] and not self._is_same_input(wanted, theirs):
                    return False
            elif kind == CONSTANT:
                if theirs is not wanted and not self._are_same_constants(wanted, theirs):
                    return False
            else:
                opened = _opened(kind, wanted, theirs)
                if opened is None:
                    return False
                parts.append(opened)
        return True

    def _is_same_input(self, number: int, obtained: Any) -> bool:
        """Tell whether a constant is the one that stands for an input already."""
        known = self._values[number]
        if isinstance(known, Node) or isinstance(obtained, Node):
            return False
        return constants_equal(known, obtained)

    def _are_same_constants(self, expected: Any, obtained: Any) -> bool:
        if isinstance(obtained, Node):
            return False
        if isinstance(expected, (list, tuple)) and isinstance(obtained, (list, tuple)):
            return len(expected) == len(obtained) and all(map(self._are_same_constants, expected, obtained))
        if isinstance(expected, slice) and isinstance(obtained, slice):
            return all(map(self._are_same_constants, slice_parts(expected), slice_parts(obtained)))
        if isinstance(expected, dict) and isinstance(obtained, dict):
            return expected.keys() == obtained.keys() and all(
                self._are_same_constants(value, obtained[key]) for key, value in expected.items()
            )
        return constants_equal(expected, obtained) or (self._ignores_literals and not nodes_in(obtained))

    # Once all last nodes were found.

    def compute_nodes(self) -> list[Node]:
        """Return the nodes of the graph that stand for operations of the pattern, not for its inputs."""
        values = self._values
        if len(values) < len(self._pattern.order):
            return [values[number] for number in self._operations if number < len(values)]
        return [values[number] for number in self._operations]

    def is_contained(self) -> bool:
        """Tell whether nobody outside of a match reads what the pattern does not return."""
        values = self._values
        for number, readers in self._private:
            if len(values[number].users) != readers:
                return False
        for number in self._inputs:
            # A list that stands for an input may hold what the match is about to replace.
            if type(values[number]) is not Node and not set(nodes_in(values[number])).isdisjoint(self.compute_nodes()):
                return False
        return True

    def is_convex(self) -> bool:
        """Tell whether the operations found can become one node without making a cycle."""
        if not self._may_come_back:
            return True
        return is_convex(self.compute_nodes(), [self._values[number] for number in self._leaving])


def _opened(kind: int, wanted: Any, container: Any) -> Any | None:
    """Return the items of a container, in the order of the pattern's; None if it is another one."""
    if kind == SEQUENCE:
        return container if isinstance(container, (list, tuple)) and len(container) == wanted else None
    if kind == MAPPING:
        is_like = isinstance(container, dict) and container.keys() == wanted
        return [container[key] for key in wanted] if is_like else None
    return slice_parts(container) if isinstance(container, slice) else None
