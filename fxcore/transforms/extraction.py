"""Extraction of a stretch of a graph as a module of its own, with its inputs in the whole graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from fxcore.errors import PassArgumentError
from fxcore.graph_module import GraphModule
from fxcore.guided.inputs import copied_example
from fxcore.interpreter import Interpreter
from fxcore.node import Node
from fxcore.passes.part_graph import ReadingPart
from fxcore.passes.utils.common import lift_subgraph_as_module
from fxcore.state.snapshot import state_kept

__all__ = ["Extraction", "extract_between"]


@dataclass(frozen=True)
class Extraction:
    """A part of a graph as a module, with its inputs and its result in a run of the whole graph."""

    graph_module: GraphModule
    inputs: tuple[Any, ...]  # copies from the time when the part began
    expected: Any  # a copy of its result: a value, or a tuple of several
    input_names: tuple[str, ...]


def extract_between(
    gm: GraphModule, starts: Iterable[Node | str], ends: Iterable[Node | str], example: Any
) -> Extraction:
    """Return the part of `gm` that computes the values of `ends` from the values of `starts`.

    `starts` and `ends` are nodes or their names; `example` are arguments of `gm`, a tuple or one tensor, which stay as
    they are. Other values that the part reads, except parameters and buffers, become inputs too. Raises
    PassArgumentError (a TypeError) for names that are not there, and if an end does not depend on a start.
    """
    first, last = _nodes(gm, starts), _nodes(gm, ends)
    after = _reached_from(first, gm)
    for end in last:
        if end not in after:
            raise PassArgumentError(
                f"cannot extract what lies between: {end.name!r} does not depend on "
                f"{', '.join(start.name for start in first)}; give nodes that it is computed from"
            )
    inside: set[Node] = set()
    for node in reversed(gm.graph.nodes):
        if node in after and (node in last or not inside.isdisjoint(node.users)):
            inside.add(node)
    nodes = [node for node in gm.graph.nodes if node in inside]
    read = dict.fromkeys([value for node in nodes for value in node.all_input_nodes if value not in inside])
    copies = ReadingPart()
    # Inputs stand first.
    for value in sorted(read, key=lambda value: value.op == "get_attr"):
        copies.value_of(value)
    for node in nodes:
        copies.copy(node)
    copies.finish(last)
    part, _ = lift_subgraph_as_module(gm, copies.graph)
    part.training = gm.training
    inputs = list(copies.inputs_from_outside)
    recorder = _Recorder(gm, inputs, last, nodes[0])
    arguments = (example,) if isinstance(example, torch.Tensor) else tuple(example)
    with torch.no_grad(), state_kept(gm):
        recorder.run(*copied_example(arguments))
    expected = tuple([recorder.values[end] for end in last])
    result = expected[0] if len(expected) == 1 else expected
    given = tuple([recorder.values[value] for value in inputs])
    return Extraction(part, given, result, tuple([value.name for value in inputs]))


def _nodes(gm: GraphModule, wanted: Iterable[Node | str]) -> list[Node]:
    by_name = {node.name: node for node in gm.graph.nodes}
    names = [node if isinstance(node, str) else node.name for node in ([wanted] if isinstance(wanted, str) else wanted)]
    missing = [name for name in names if name not in by_name]
    if missing or not names:
        raise PassArgumentError(
            f"the graph has no node {', '.join(map(repr, missing)) or 'of no name'}; it has {', '.join(by_name)}"
        )
    return [by_name[name] for name in names]


def _reached_from(starts: list[Node], gm: GraphModule) -> set[Node]:
    """Return the nodes that depend on `starts`, without them."""
    reached = set(starts)
    for node in gm.graph.nodes:
        if node.op != "output" and not reached.isdisjoint(node.all_input_nodes):
            reached.add(node)
    return reached.difference(starts)


class _Recorder(Interpreter):
    """Runs a graph and copies values. Inputs are copied when the part begins, because later nodes may write to them."""

    def __init__(self, gm: GraphModule, inputs: list[Node], outputs: list[Node], begin: Node) -> None:
        super().__init__(gm)
        self._inputs, self._outputs, self._begin = inputs, outputs, begin
        self._has_begun = False
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        if n is self._begin:
            self._has_begun = True
            self.values.update({each: copied_example(self.env[each]) for each in self._inputs if each in self.env})
        value = super().run_node(n)
        if n in self._outputs or (self._has_begun and n in self._inputs):
            self.values[n] = copied_example(value)
        return value
