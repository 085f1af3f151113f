"""The split of a graph module by tags on its nodes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import nn

from fxcore.errors import GraphArgumentError, GraphError
from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.arguments import map_values
from fxcore.passes.part_graph import PartGraph, ReadingPart
from fxcore.passes.tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from fxcore.passes.utils.common import HolderModule, lift_subgraph_as_module

_logger = logging.getLogger(__name__)


class Subgraph(Protocol):
    """A run of nodes for one backend: a class of the caller."""

    is_acc: bool
    nodes: list[Node]


def move_non_tensor_nodes_on_boundary(subgraphs: Sequence[Subgraph]) -> None:
    """Move nodes without a tensor from accelerator subgraphs to the subgraph that reads them, with all nodes between.

    Needs ShapeProp's notes: `node.meta["type"]`. A node that several other subgraphs read stays.
    """
    owner = {node: index for index, subgraph in enumerate(subgraphs) for node in subgraph.nodes}
    for index, subgraph in enumerate(subgraphs):
        if subgraph.is_acc:
            _Mover(subgraphs, owner, index).move()


class _Mover:
    """Moves nodes out of one subgraph."""

    def __init__(self, subgraphs: Sequence[Subgraph], owner: dict[Node, int], index: int) -> None:
        self._subgraphs = subgraphs
        self._owner = owner
        self._index = index

    def move(self) -> None:
        nodes = self._subgraphs[self._index].nodes
        waiting = deque([node for node in nodes if not is_node_output_tensor(node) and self._readers_elsewhere(node)])
        seen: set[Node] = set()
        while waiting:
            node = waiting.popleft()
            if node in seen or self._owner.get(node) != self._index:
                continue
            seen.add(node)
            destinations = self._readers_elsewhere(node)
            if len(destinations) != 1:
                _logger.info("%s stays: nodes of several other subgraphs read it", node.name)
                continue
            moving = self._that_move_with(node, destination := destinations.pop())
            if moving is None:
                continue
            self._move_all(moving, destination)
            waiting.extend(
                value
                for value in node.all_input_nodes
                if self._owner.get(value) == self._index and _is_call(value) and not is_node_output_tensor(value)
            )

    def _readers(self, node: Node) -> list[Node]:
        return [user for user in node.users if _is_call(user) and user in self._owner]

    def _readers_elsewhere(self, node: Node) -> set[int]:
        return {self._owner[user] for user in self._readers(node)} - {self._index}

    def _that_move_with(self, node: Node, destination: int) -> list[Node] | None:
        """Return the nodes that must move to `destination` with `node`; None if a third subgraph is in between."""
        moving: dict[Node, None] = {}
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if current in moving or self._owner[current] == destination:
                continue
            if self._owner[current] != self._index:
                return None
            moving[current] = None
            waiting.extend(self._readers(current))
        return list(moving)

    def _move_all(self, moving: list[Node], destination: int) -> None:
        for node in moving:
            self._subgraphs[self._index].nodes.remove(node)
            self._subgraphs[destination].nodes.append(node)
            self._owner[node] = destination
            _logger.info("moved %s from subgraph %d to %d", node.name, self._index, destination)


def _is_call(node: Node) -> bool:
    return node.op in CALLABLE_NODE_OPS


__all__ = [
    "Component",
    "getattr_recursive",
    "move_non_tensor_nodes_on_boundary",
    "setattr_recursive",
    "split_by_tags",
]


def getattr_recursive(obj: Any, name: str) -> Any:
    """Return the attribute at a dotted path below `obj`; None if a part is missing."""
    for part in name.split("."):
        obj = obj._modules.get(part) if isinstance(obj, nn.ModuleList) else getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def setattr_recursive(obj: Any, attr: str, value: object) -> None:
    """Set the attribute at a dotted path below `obj`. The parts before the last must exist."""
    *parents, name = attr.split(".")
    for parent in parents:
        obj = getattr(obj, parent)
    setattr(obj, name, value)


@dataclass
class Component:
    """The nodes of one tag, on their way to be a submodule."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)  # in `graph`
    orig_inputs: list[Node] = field(default_factory=list)  # in the whole graph, one for each placeholder
    orig_outputs: list[Node] = field(default_factory=list)  # in the whole graph
    getattr_maps: dict[Node, Node] = field(default_factory=dict)  # whole graph -> `graph`
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,  # noqa: N803 - torch.fx's public name
) -> Any:
    """Return a graph module that calls a submodule for each of `tags`, in their order.

    Every call in the graph of `gm` has an attribute `tag` that says where it goes: `node.tag = "left"`. Inputs and
    outputs need no tag, and attributes are read where they are used. A node may read values of its own and of earlier
    tags.

    - `return_fqn_mapping`: return a pair of the module and a dict from paths in `gm` to paths in it.
    - `return_tuple`: let submodules with one output return a tuple too.
    - `GraphModuleCls`: the class of the result.

    Raises GraphArgumentError (an AssertionError) for a node without tag, or one that reads a value of a later tag,
    and GraphError (a RuntimeError) for a graph without output.
    """
    output = next(iter(gm.graph.find_nodes(op="output")), None)
    if output is None:
        raise GraphError(f"Graph had no output node! {type(gm).__name__}.graph must end with graph.output()")
    components = {tag: Component(Graph(), order, tag) for order, tag in enumerate(tags)}
    parts = {tag: ReadingPart() for tag in tags}
    main = PartGraph()
    component_of: dict[Node, Component] = {}
    crossing: dict[Node, None] = {}  # the values that leave their component, by their first use outside
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            main.add_input(node, node.name)
        elif node.op not in ("get_attr", "output"):
            component = component_of[node] = _component_of(node, components, component_of)
            parts[node.tag].copy(node).tag = node.tag  # type: ignore[attr-defined]  # nodes take attributes
            values = [value for value in node.all_input_nodes if component_of.get(value, component) is not component]
            crossing.update(dict.fromkeys(values))
    root = HolderModule({})
    for value in output.all_input_nodes:
        if value.op == "get_attr":
            main.add_read(value, value.name)
            setattr(root, value.name, getattr_recursive(gm, str(value.target)))
        elif value in component_of:
            crossing[value] = None
    for value in crossing:
        component_of[value].orig_outputs.append(value)
    paths: dict[str, str] = {}
    for tag, part in parts.items():
        outputs = components[tag].orig_outputs
        is_tuple = part.finish(outputs, always_tuple=return_tuple)
        made, moved = lift_subgraph_as_module(gm, subgraph=part.graph, comp_name=tag)
        root.add_module(tag, made)
        main.call_part(tag, part.inputs_from_outside, outputs, is_tuple=is_tuple)
        paths |= moved
    main.graph.output(map_values(output.args[0], main.value_of))
    main.graph.set_codegen(gm.graph._codegen)
    result = GraphModuleCls(root, main.graph)
    return (result, paths) if return_fqn_mapping else result


def _component_of(node: Node, components: dict[str, Component], known: dict[Node, Component]) -> Component:
    """Return the component of a node's tag. Raises GraphArgumentError if the node cannot be in it."""
    if not hasattr(node, "tag"):
        raise GraphArgumentError(
            f"Node does not have tag: {node.format_node()}. Set node.tag to one of {list(components)}"
        )
    component = components[node.tag]
    latest = max((known[value].order for value in node.all_input_nodes if value in known), default=0)
    if component.order < latest:
        raise GraphArgumentError(
            f"Component {component.name} order must be >= max of its upstream components, order={component.order} "
            f"and max={latest}: {node.name} reads a value of a later tag"
        )
    return component
