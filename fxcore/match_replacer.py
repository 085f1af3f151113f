"""Replacing the matches of a pattern in a graph, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fxcore.adopted_attributes import rename_paths
from fxcore.correspondence import nodes_in
from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.internal_match import InternalMatch
from fxcore.node import Node
from fxcore.output_pairs import pair_outputs
from fxcore.splice import Splice


class ReplacingGraph:
    """A graph that takes the place of matches, with what there is to know about it beforehand."""

    def __init__(self, graph: Graph, pattern_output: Any, returned: list[Node]) -> None:
        """Prepare `graph`; the pattern returns `pattern_output`, in which the nodes `returned` are.

        Raises GraphArgumentError (an AssertionError) if it returns another number of values.
        """
        self.graph = graph
        nodes = list(graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        self.inputs_computed_with = [node for node in self.inputs if _is_computed_with(node)]
        self.body = [node for node in nodes if node.op not in ("placeholder", "output")]
        output = nodes[-1].args[0] if nodes and nodes[-1].op == "output" else None
        self.successors = pair_outputs(pattern_output, returned, output)
        self.returns_inputs = any(isinstance(each, Node) and each.op == "placeholder" for _, each in self.successors)


class MatchReplacer:
    """Puts replacements in the place of matches of one pattern."""

    def __init__(self, graph: Graph, pattern: Graph, *, at_once: bool, modules_are_captured: bool) -> None:
        """Replace in `graph`.

        With `at_once`, the graph is whole after every replacement, else after `finish`. With `modules_are_captured`,
        the paths that `pattern` uses mean, in a replacement, the modules that were matched.
        """
        self._splice = Splice(graph)
        self._at_once = at_once
        nodes = list(pattern.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._operations = [node for node in nodes if node.op not in ("placeholder", "output")]
        self._returned = list(nodes[-1]._input_nodes)
        self._replaces_inputs = any(node.op == "placeholder" for node in self._returned)
        self._output = nodes[-1].args[0] if nodes[-1].op == "output" else None
        self._path_users = [
            node for node in self._operations if modules_are_captured and node.op in ("call_module", "get_attr")
        ]
        self.captured_paths = {node.target for node in self._path_users}

    def prepare(self, replacement: Graph) -> ReplacingGraph:
        """Return `replacement` in the form that `replace` takes."""
        return ReplacingGraph(replacement, self._output, self._returned)

    def replace(
        self, match: InternalMatch, replacement: ReplacingGraph, inputs: list[Any], names: Mapping[str, str]
    ) -> list[Node] | None:
        """Put a copy of `replacement`, with paths renamed, in the place of a match; return the new nodes.

        `inputs` are the values that the replacement's placeholders stand for. None if there is no place for it any
        more, since earlier replacements made an input depend on what the match computes; nothing is changed then.
        """
        self._check_inputs(match, replacement.inputs, inputs)
        self._refresh(match)
        resolve = self._splice.resolve
        val_map: dict[Node, Any] = {
            node: resolve(value) for node, value in zip(replacement.inputs, inputs, strict=True)
        }
        matched = [match.nodes_map[node] for node in self._operations]
        place = self._find_place(match, replacement, val_map, matched)
        if place is None:
            return None
        if self._replaces_inputs:
            self._splice.finish()
        self._splice.insert(place, replacement.graph, val_map)
        copies = [val_map[node] for node in replacement.body]
        captured = {node.target: match.nodes_map[node].target for node in self._path_users}
        rename_paths(copies, {**names, **captured})
        self._splice.discard(matched)
        self._hand_over(match, replacement, val_map, copies)
        return copies

    def _find_place(
        self, match: InternalMatch, replacement: ReplacingGraph, val_map: dict[Node, Any], matched: list[Node]
    ) -> Node | None:
        needed = [value for node in replacement.inputs_computed_with for value in nodes_in(val_map[node])]
        if replacement.returns_inputs:
            needed += self._late_successors(match, replacement, val_map, set(matched))
        values = [value for node in self._returned if isinstance(value := match.nodes_map[node], Node)]
        return self._splice.make_place(needed, values, matched)

    def _late_successors(
        self, match: InternalMatch, replacement: ReplacingGraph, val_map: dict[Node, Any], matched: Collection[Node]
    ) -> list[Node]:
        """Return the inputs that take the place of a value but stand behind a reader of it."""
        late = []
        for node, successor in replacement.successors:
            value = match.nodes_map[node]
            if isinstance(value, Node) and isinstance(successor, Node) and successor.op == "placeholder":
                readers = [reader for reader in self._splice.readers(value) if reader not in matched]
                late += [each for each in nodes_in(val_map[successor]) if readers and each >= min(readers)]
        return late

    def _hand_over(
        self, match: InternalMatch, replacement: ReplacingGraph, val_map: dict[Node, Any], copies: list[Node]
    ) -> None:
        """Let the readers of what a match returns read what the copy of the replacement returns."""
        for node, successor in replacement.successors:
            value = match.nodes_map[node]
            if isinstance(value, Node):
                new = val_map[successor] if isinstance(successor, Node) else successor
                # The copy itself may read a value that it replaces, where the pattern returns one of its inputs.
                self._splice.replace(value, new, apart_from=copies if self._replaces_inputs else ())
        if self._at_once or self._replaces_inputs:
            self._splice.finish()

    def finish(self) -> None:
        """Make the graph whole."""
        self._splice.finish()

    def _check_inputs(self, match: InternalMatch, placeholders: list[Node], inputs: list[Any]) -> None:
        if len(placeholders) != len(inputs):
            raise GraphArgumentError(
                f"Placeholder count mismatch: {len(inputs)} vs {len(placeholders)}: the replacement must have the "
                f"parameters of the pattern, ({', '.join([node.name for node in self._inputs])}), used or not"
            )
        if len(placeholders) != len(self._inputs):
            return
        for node, placeholder in zip(self._inputs, placeholders, strict=True):
            if node not in match.nodes_map and placeholder.users:
                raise GraphArgumentError(
                    f"the replacement uses its parameter {placeholder.name!r}, but the pattern's, {node.name!r}, "
                    "stands for nothing since the pattern does not use it; use it in the pattern too"
                )

    def _refresh(self, match: InternalMatch) -> None:
        """Let a match tell of what stands by now in the place of values that were replaced since it was found."""
        for index, node in enumerate(self._inputs):
            if node in match.nodes_map:
                value = self._splice.resolve(match.nodes_map[node])
                match.nodes_map[node] = match.placeholder_nodes[index] = value


def _is_computed_with(placeholder: Node) -> bool:
    return any(reader.op != "output" for reader in placeholder.users)
