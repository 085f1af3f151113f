"""Inlining of submodules into the graph that calls them, and the way back: submodules from traced operations."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from fxcore._symbolic_trace import symbolic_trace
from fxcore.codegen.codegen import CodeGen
from fxcore.errors import PassError
from fxcore.graph_module import GraphModule
from fxcore.node import Node
from fxcore.node_data.attribute_paths import get_attribute
from fxcore.passes.infra.working_copy import Changes, RewritingPass, free_name
from fxcore.passes.utils.fuser_utils import erase_nodes, fuse_as_graphmodule, insert_subgm, validate_partition
from fxcore.transforms.fusion.calls import has_hooks

__all__ = ["Inline", "Outline", "inline_call"]


def inline_call(gm: GraphModule, call: Node, inlined: GraphModule, prefix: str = "") -> dict[Node, Any]:
    """Put the nodes of `inlined` in place of its call in the graph of `gm`; return the replacement of each node.

    `prefix` goes before the paths that they refer to. Raises PassError for an argument that the call does not give.
    """
    arguments = list(call.args)
    inputs = inlined.graph.find_nodes(op="placeholder")
    copies: dict[Node, Any] = {node: _argument(node, arguments, call) for node in inputs}
    with gm.graph.inserting_before(call):
        results = gm.graph.graph_copy(inlined.graph, copies)
    for node in copies.keys() - inputs if prefix else ():
        if node.op in ("call_module", "get_attr"):
            copies[node].target = f"{prefix}{node.target}"
    _replace_call(call, results, copies)
    # Erase the call by hand, because dead code elimination would keep the call of an impure module.
    gm.graph.erase_node(call)
    return copies


def _argument(placeholder: Node, arguments: list[Any], call: Node) -> Any:
    if str(placeholder.target).startswith("*"):
        raise PassError(f"cannot inline {call.target}: it takes any number of arguments, as {placeholder.target}")
    if placeholder.name in call.kwargs:
        return call.kwargs[placeholder.name]
    if arguments:
        return arguments.pop(0)
    if placeholder.args:
        return placeholder.args[0]
    raise PassError(f"cannot inline {call.target}: its call {call.name} gives no argument for {placeholder.name!r}")


def _replace_call(call: Node, results: Any, copies: dict[Node, Any]) -> None:
    """Let readers of `call` read `results`; the items of a tuple directly."""
    if isinstance(results, (list, tuple)):
        for user in list(call.users):
            if user.target is operator.getitem and isinstance(user.args[1], int):
                copies[user] = results[user.args[1]]
                user.replace_all_uses_with(copies[user])
                user.graph.erase_node(user)
    call.replace_all_uses_with(results)


@dataclass(frozen=True)
class Inline(RewritingPass):
    """Puts the operations of submodules into the graph that calls them, down to the layers of torch.

    `paths` are globs of the submodules; other submodules stay. A submodule that is no graph module is traced first.
    """

    paths: tuple[str, ...] = ("*",)

    def rewrite(self, made: GraphModule) -> Changes:
        """Inline calls until none is left. Raises TraceError and other FxErrors if a submodule cannot be traced."""
        inlined: list[str] = []
        left: dict[str, str] = {}
        while calls := [node for node in made.graph.find_nodes(op="call_module") if self._is_inlined(node, made, left)]:
            for call in calls:
                path = str(call.target)
                module = get_attribute(made, path)
                traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
                inline_call(made, call, traced, f"{path}.")
                inlined.append(path)
        if inlined:
            made.graph.eliminate_dead_code()  # results that the calls gave and nobody read
        return inlined, left

    def _is_inlined(self, call: Node, gm: GraphModule, left: dict[str, str]) -> bool:
        path = str(call.target)
        module = get_attribute(gm, path)
        is_graph = isinstance(module, GraphModule)
        is_of_torch = type(module).__module__.startswith(("torch.nn.", "torch.ao.nn.", "torch.export."))
        if not any(fnmatchcase(path, pattern) for pattern in self.paths):
            return False
        if is_of_torch and not is_graph and not isinstance(module, nn.Sequential):
            return False
        if has_hooks(module):
            left[path] = "it has hooks, which would no longer run"
        elif is_graph and type(module.graph._codegen) is not CodeGen:
            left[path] = "its graph takes nested inputs or returns nested values"
        return path not in left


@dataclass(frozen=True)
class Outline(RewritingPass):
    """Makes submodules again from traced operations: one for each call of the modules that `paths` name, as globs.

    The metadata `nn_module_stack` tells the graph the operations of a module. A submodule is named after the path, with
    `_` for the dots; the layers that it calls are shared. Nodes that cannot be one call, because a value leaves them
    and comes back, stay.
    """

    paths: tuple[str, ...]

    def rewrite(self, made: GraphModule) -> Changes:
        """Make the submodules."""
        groups: dict[str, list[Node]] = {}
        for node in made.graph.nodes:
            key = self._outermost(node)
            if key is not None and node.op.startswith("call_"):
                groups.setdefault(key, []).append(node)
        outlined: list[str] = []
        left = dict.fromkeys(self.paths, "no node names such a module in its nn_module_stack")
        for key, nodes in groups.items():
            path = key.partition("@")[0]
            for pattern in self.paths:
                if fnmatchcase(path, pattern):
                    left.pop(pattern, None)
            if not validate_partition(nodes):
                left[key] = "a value leaves its operations and comes back, so that they cannot be one call"
                continue
            # Attributes that only these nodes read move along.
            inside = dict.fromkeys(nodes)
            states = [value for node in nodes for value in node.all_input_nodes if value.op == "get_attr"]
            nodes = [*(value for value in dict.fromkeys(states) if all(user in inside for user in value.users)), *nodes]
            name = free_name(made, path.replace(".", "_") + "_outlined")
            part, inputs, outputs = fuse_as_graphmodule(made, nodes, name, dict.fromkeys(nodes))
            insert_subgm(made, part, inputs, outputs, nodes[-1])
            erase_nodes(made, nodes)
            outlined.append(key)
        return outlined, left

    def _outermost(self, node: Node) -> str | None:
        """Return the key of the outermost call of a requested module that made `node`."""
        for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
            if path != node.target and any(fnmatchcase(str(path), pattern) for pattern in self.paths):
                return str(key)
        return None
