"""A partition: nodes that go into one submodule."""

from __future__ import annotations

from typing import Any

from fxcore.graph import Graph
from fxcore.node import Node


class Partition:
    """Nodes that go into one submodule, what flows in and out of it, and the graph that it becomes.

    `inputs`, `outputs`, `dependencies` and `dependents` are ordered sets of names: dicts without values.
    """

    def __init__(self, name: str) -> None:
        """Make a partition without nodes."""
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}  # node of the whole graph -> its copy, or its input, here
        self.targets: dict[str, Any] = {}  # what the graph here refers to

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n"
            f" nodes: {self.node_names},\n"
            f" inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n"
            f" partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )
