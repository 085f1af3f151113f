"""Observation of a pass: the nodes that it makes and erases, and the sources of new nodes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, TypeVar

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.passes.graph_drawer import FxGraphDrawer
from fxcore.traceback import NodeSource, NodeSourceAction

__all__ = ["GraphTransformObserver"]

_T = TypeVar("_T")


class GraphTransformObserver:
    """Watches the changes of a block to the graph of a module.

    New nodes get `meta["from_node"]`: the pass and the source node. With `log_url`, a folder, the graph before and
    after is drawn there (as `.dot`, which needs pydot), with erased and new nodes in yellow.

        with GraphTransformObserver(gm, "my_pass", log_url="drawings"):
            my_pass(gm)
    """

    _pass_count: ClassVar[int] = 0

    def __init__(
        self, gm: GraphModule, passname: str, subsystem: str | None = None, log_url: str | None = None
    ) -> None:
        """Prepare to watch `passname` on `gm`.

        Without `log_url`, nothing is watched, unless the settings of a loaded Inductor ask for it.
        """

        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url: str | None = (
            log_url if log_url is not None else _inductor_setting("trace.log_url_for_graph_xform")
        )
        self.active = self.log_url is not None or _inductor_setting("trace.provenance_tracking_level") == 1
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self.copied_gms: list[GraphModule] = []  # copies carry the hooks too
        self._hooks = {
            "create_node": self.get_node_creation_hook(),
            "erase_node": self.get_node_erase_hook(),
            "replace_node": self.get_node_replace_hook(),
            "deepcopy": self.get_deepcopy_hook(),
        }
        if self.log_url is not None:
            GraphTransformObserver._pass_count += 1
            self.input_dot_graph = self._draw()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """Return how many passes have been watched for drawings so far."""
        return GraphTransformObserver._pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], _T]) -> _T | None:
        """Run `pass_fn` on the module and watch it. Return None if Inductor's settings disable the pass."""
        with self:
            return None if self._is_disabled() else pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], _T]) -> _T | None:
        """Run `pass_fn` on the module's graph and watch it. Return None if Inductor's settings disable the pass."""
        with self:
            return None if self._is_disabled() else pass_fn(self.gm.graph)

    def _is_disabled(self) -> bool:
        return self.passname.upper() in (_inductor_setting("disabled_passes") or "").upper()

    def __enter__(self) -> GraphTransformObserver:
        if not self.active:
            return self
        for event, hook in self._hooks.items():
            getattr(self.gm, f"_register_{event}_hook")(hook)
        self.erased_nodes.clear()
        self.created_nodes.clear()
        self.copied_gms.clear()
        self.name_to_node = {node.name: node for node in self.gm.graph.nodes}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if not self.active:
            return
        for gm in (*self.copied_gms, self.gm):
            for event, hook in self._hooks.items():
                getattr(gm, f"_unregister_{event}_hook")(hook)
        if self.log_url is not None and (self.created_nodes or self.erased_nodes):
            self._write(self.input_dot_graph, "input", self.erased_nodes)
            self._write(self._draw(), "output", self.created_nodes)

    def _draw(self) -> Any:
        drawer = FxGraphDrawer(self.gm, self.passname, ignore_getattr=True, ignore_parameters_and_buffers=True)
        return drawer.get_dot_graph()

    def _write(self, drawing: Any, title: str, changed: set[str]) -> None:
        for drawn in drawing.get_node_list():
            drawn.obj_dict["attributes"]["fillcolor"] = "yellow" if drawn.get_name() in changed else "grey"
        assert self.log_url is not None
        name = f"pass_{GraphTransformObserver._pass_count}_{self.passname}_{title}_graph.dot"
        drawing.write(os.path.join(self.log_url, name))

    # The hooks are functions, because a deepcopy of the module copies its hooks. A method would bring along the
    # observer, and with it the module again.

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """Return the hook for new nodes."""

        def on_node_creation(node: Node) -> None:
            self.created_nodes.add(node.name)
            self.name_to_node[node.name] = node
            source = NodeSource(None, self.passname, NodeSourceAction.CREATE)
            node.meta.setdefault("from_node", []).append(source)

        return on_node_creation

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """Return the hook for erased nodes."""

        def on_node_erase(node: Node) -> None:
            self.erased_nodes.add(node.name)
            self.name_to_node.pop(node.name, None)

        return on_node_erase

    def get_node_replace_hook(self) -> Callable[[Node, str, Node], None]:
        """Return the hook for a `user` that reads the node named `new` instead of `old`."""

        def on_node_replace(old: Node, new: str, user: Node) -> None:
            replacement = self.name_to_node.get(new)
            if replacement is None:
                return
            sources: list[NodeSource] = replacement.meta.get("from_node", [])
            # The graph calls the hook for each user, and one note is enough.
            if old.name in {source.name for source in sources}:
                return
            action = [NodeSourceAction.REPLACE]
            if new in self.created_nodes:
                action.append(NodeSourceAction.CREATE)
            creation = self.passname, [NodeSourceAction.CREATE]
            kept = [source for source in sources if (source.pass_name, source.action) != creation]
            replacement.meta["from_node"] = [*kept, NodeSource(old, self.passname, action)]

        return on_node_replace

    def get_deepcopy_hook(self) -> Callable[[GraphModule], None]:
        """Return the hook for deep copies of the module."""
        return self.copied_gms.append


def _inductor_setting(path: str) -> Any:
    """Return a setting of torch's Inductor, or None if Inductor is not loaded."""
    found: Any = sys.modules.get("torch._inductor.config")
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
