"""A pattern laid out as the steps in which a place is compared with it, so that a comparison looks nothing up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fxcore.correspondence import nodes_in
from fxcore.literals import slice_parts
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
