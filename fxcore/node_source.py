"""Where a node comes from: the nodes that it was made of, pass by pass."""

from __future__ import annotations

import copy
from enum import Enum
from typing import Any

_DEEPEST_SHOWN = 9


class NodeSourceAction(Enum):
    """What a pass did to make a node."""

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """One step in the history of a node: which pass made it of which node, and where that one came from.

    Passes keep a list of these in `node.meta["from_node"]`.
    """

    class NodeInfo:
        """The node that another was made of."""

        def __init__(self, name: str, target: str, graph_id: int) -> None:
            self.name = name
            self.target = target
            self.graph_id = graph_id

    pass_name: str
    action: list[NodeSourceAction]
    from_node: list[NodeSource]
    node_info: NodeInfo | None

    def __init__(
        self,
        node: Any | None,
        pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        """Say that `pass_name` made a node of `node`, whose own history is taken along; None for one made of none."""
        self.pass_name = pass_name
        self.action = list(action) if isinstance(action, list) else [action] if action is not None else []
        self.node_info = None
        self.from_node = []
        if node is not None:
            self.node_info = self.NodeInfo(node.name, str(node.target), id(node.graph))
            older = node.meta.get("from_node")
            self.from_node = copy.deepcopy(older) if older else []

    @property
    def name(self) -> str:
        """The name of the node; empty if there was none."""
        return self.node_info.name if self.node_info else ""

    @property
    def target(self) -> str:
        """The target of the node as text; empty if there was none."""
        return self.node_info.target if self.node_info else ""

    @property
    def graph_id(self) -> int:
        """The id of the node's graph; -1 if there was none."""
        return self.node_info.graph_id if self.node_info else -1

    def _get_action_string(self) -> str:
        return "+".join([action.name.lower() for action in self.action])

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """Return the history as text, one line a step, older steps indented further."""
        if indent > _DEEPEST_SHOWN:
            return ""
        line = (
            f"(name={self.name}, pass_name={self.pass_name}, action={self._get_action_string()}, "
            f"graph_id={self.graph_id})\n"
        )
        return "    " * indent + line + "".join([source.print_readable(indent + 1) for source in self.from_node])

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain data."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    @classmethod
    def _from_dict(cls, d: dict[str, Any] | None) -> NodeSource | None:
        """Return the history that `to_dict` made `d` of; None for None."""
        if d is None:
            return None
        source = cls(None, d.get("pass_name", ""))
        known = NodeSourceAction.__members__
        source.action = [known[name.upper()] for name in d.get("action", "").split("+") if name.upper() in known]
        if "name" in d and "target" in d and "graph_id" in d:
            source.node_info = cls.NodeInfo(d["name"], d["target"], d["graph_id"])
        older = [cls._from_dict(each) for each in d.get("from_node") or []]
        source.from_node = [each for each in older if each is not None]
        return source

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))
