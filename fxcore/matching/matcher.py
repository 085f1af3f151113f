"""Finding a pattern, itself a graph, in a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxcore.errors import GraphArgumentError, NodeTargetError
from fxcore.gc_pause import gc_paused
from fxcore.graph import Graph
from fxcore.matching.argument_pairing import Pair, pair_as_written, pair_by_parameter
from fxcore.matching.comparison import nodes_in
from fxcore.matching.compiled_pattern import CompiledPattern
from fxcore.matching.literals import constants_equal
from fxcore.matching.match import InternalMatch
from fxcore.matching.module_equality import module_comparison, value_of
from fxcore.matching.search import Anchor, PatternSearch
from fxcore.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


class SubgraphMatcher:
    """Finds where a graph computes what a pattern computes."""

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
        *,
        match_modules: str = "path",
        bind_arguments: bool = False,
    ) -> None:
        """Prepare to look for `pattern`, whose inputs stand for any value, or any constant.

        With `match_output`, the pattern's return must be the graph's; with `match_placeholder`, the pattern's inputs
        must be inputs. With `remove_overlapping_matches`, of matches that share an operation the first counts.
        With `ignore_literals`, a constant in the pattern stands for any constant. Modules are matched by "path",
        "class" or "config" (class and hyper-parameters). With `bind_arguments`, it does not matter whether an argument
        is given by position, by keyword, or left to its default.

        Raises NodeTargetError (a ValueError) for an empty pattern, and GraphArgumentError (an AssertionError) for one
        that computes what it does not return.
        """
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        self.compares_modules_by_path = match_modules == "path"
        self._are_alike_modules = module_comparison(match_modules)
        self.pair_arguments: Callable[[Node, Node], list[Pair] | None] = (
            pair_by_parameter if bind_arguments else pair_as_written
        )
        nodes = list(pattern.nodes)
        if not nodes:
            raise NodeTargetError(
                "SubgraphMatcher cannot be initialized with an empty pattern: there is nothing to look for"
            )
        _refuse_dead_code(nodes)
        self.pattern_placeholder_nodes = [node for node in nodes if node._op == "placeholder"]
        self.pattern_returning_nodes: list[Node] = list(nodes[-1]._input_nodes)
        self.pattern_anchors: list[Node] = self._find_anchors(nodes)
        self.sinks = [Anchor(node) for node in self.pattern_anchors]
        self.compiled = self._compile()

    def _compile(self) -> CompiledPattern | None:
        """Lay the pattern out in steps, unless it is compared in a way that steps do not know."""
        is_usual = self.has_usual_equality() and type(self)._is_contained is SubgraphMatcher._is_contained
        has_other_sinks = any(node._op in ("placeholder", "output") for node in self.pattern_anchors)
        if not is_usual or has_other_sinks or self.match_placeholder or self.pair_arguments is not pair_as_written:
            return None
        return CompiledPattern(self.pattern_anchors, self._nodes_are_equal, by_path=self.compares_modules_by_path)

    def _find_anchors(self, nodes: list[Node]) -> list[Node]:
        if self.match_output:
            return [nodes[-1]]
        returned = [node for node in self.pattern_returning_nodes if len(node.users) == 1]
        # Nobody reads these, but they do something: the pattern is not there unless they are.
        effects = [node for node in nodes if not node.users and node._op not in ("placeholder", "output")]
        return returned + effects

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the places where the pattern is found, in the order of the graph.

        Values that the pattern computes but does not return are read within the match only, and the match could be
        replaced by a single node without making a cycle. Where the pattern's last nodes have `node_name_match` in
        their name, what they call does not matter.
        """
        with gc_paused():
            return list(PatternSearch(self, graph, node_name_match).matches())

    def has_usual_equality(self) -> bool:
        """Tell whether nodes are alike only if the graph's index of operators says so; a subclass may differ."""
        return type(self)._nodes_are_equal is SubgraphMatcher._nodes_are_equal

    # What subclasses may refine.

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Tell whether a node of the graph does what a node of the pattern does, arguments aside."""
        op = pn._op
        if op == "placeholder" and not self.match_placeholder:
            return True
        if node_name_match and node_name_match in gn._name:
            return True
        if op != gn._op:
            return False
        if op == "call_function" or op == "call_method":
            return bool(pn._target == gn._target)
        if op == "call_module":
            return self._are_alike_modules(pn, gn)
        return self._match_attributes(pn, gn) if op == "get_attr" else True

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Tell whether an attribute stands for another: any tensor for any tensor of its class, else an equal value."""
        expected, obtained = value_of(pn), value_of(gn)
        if type(expected) is not type(obtained):
            return False
        return isinstance(expected, torch.Tensor) or constants_equal(expected, obtained)

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Tell whether nobody outside of a match reads what the pattern does not return."""
        inside = {node for ours, node in nodes_map.items() if isinstance(node, Node) and ours._op != "placeholder"}
        for ours, node in nodes_map.items():
            if ours._op == "placeholder":
                # A list that stands for an input may hold what the match is about to replace.
                if not isinstance(node, Node) and any(value in inside for value in nodes_in(node)):
                    return False
            elif ours not in self.pattern_returning_nodes and not all(user in inside for user in node.users):
                return False
        return True


def _refuse_dead_code(nodes: list[Node]) -> None:
    for node in nodes:
        if not node.users and node._op != "output" and not node.is_impure():
            raise GraphArgumentError(
                "SubgraphMatcher cannot be initialized with an pattern with dead code: "
                f"{node._name!r} ({node._op}) is read by nobody; return it, or leave it out"
            )
