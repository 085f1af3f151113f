"""Replacement of a pattern's matches in a graph, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils import _pytree as pytree

from fxcore.errors import GraphArgumentError
from fxcore.graph import Graph
from fxcore.matching.attribute_transfer import rename_paths
from fxcore.matching.comparison import nodes_in, pair_parts
from fxcore.matching.deferred_edits import DeferredEdits
from fxcore.matching.match import InternalMatch
from fxcore.node import Node


def pair_outputs(pattern_output: Any, returned: list[Node], replacement_output: Any) -> list[tuple[Node, Any]]:
    """Pair the values in a pattern's output with the values at the same places in a replacement's output.

    If the two outputs are nested differently, their values are paired in reading order; `returned` lists the values of
    the pattern. Raises GraphArgumentError (an AssertionError) if the numbers of values differ.
    """
    pairs: dict[Node, Any] = {}
    if _collect(pattern_output, replacement_output, pairs):
        return list(pairs.items())
    leaves = pytree.tree_leaves(replacement_output)
    if len(leaves) != len(returned):
        raise GraphArgumentError(
            f"Returning nodes count mismatch: {len(returned)} vs {len(leaves)}: the pattern returns "
            f"{pattern_output!r}, the replacement {replacement_output!r}; let both return values in the same structure"
        )
    return list(zip(returned, leaves, strict=True))


def _collect(expected: Any, replacement: Any, pairs: dict[Node, Any]) -> bool:
    """Record the replacement of each node in `expected`; return whether both outputs have the same form."""
    if isinstance(expected, Node):
        is_container = isinstance(replacement, (list, tuple, dict))
        return not is_container and pairs.setdefault(expected, replacement) is replacement
    parts = pair_parts(expected, replacement)
    if parts is None:
        return not isinstance(expected, (list, tuple, dict)) and not isinstance(replacement, Node)
    return all(_collect(ours, theirs, pairs) for ours, theirs in parts)


class ReplacingGraph:
    """A replacement graph with its precomputed facts."""

    def __init__(self, graph: Graph, pattern_output: Any, returned: list[Node], pattern_inputs: list[Node]) -> None:
        """Prepare `graph`. The pattern returns `pattern_output`, a nest of the nodes `returned`.

        Raises GraphArgumentError (an AssertionError) if `graph` returns another number of values.
        """
        nodes = list(graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        # Inputs without a value, because the pattern does not use its input.
        pairs = zip(self.inputs, pattern_inputs, strict=False) if len(self.inputs) == len(pattern_inputs) else ()
        self.unmatched = [(node, placeholder) for placeholder, node in pairs if placeholder.users and not node.users]
        self.read_inputs = [node for node in self.inputs if node.users]
        self.inputs_computed_with = [
            node for node in self.inputs if any(reader.op != "output" for reader in node.users)
        ]
        self.body = [node for node in nodes if node.op not in ("placeholder", "output")]
        output = nodes[-1].args[0] if nodes and nodes[-1].op == "output" else None
        self.successors = pair_outputs(pattern_output, returned, output)
        self.returned_inputs = [
            (node, each) for node, each in self.successors if isinstance(each, Node) and each.op == "placeholder"
        ]


class MatchReplacer:
    """Replacer of the matches of one pattern."""

    def __init__(self, graph: Graph, pattern: Graph, *, at_once: bool, modules_are_captured: bool) -> None:
        """Replace in `graph`.

        With `at_once`, the graph is whole after every replacement, and its hooks are called for every edit. Otherwise
        the graph is whole after `finish` and must have no hooks. With `modules_are_captured`, the paths of `pattern`
        mean the matched modules in a replacement.
        """
        self._edits = DeferredEdits(graph, has_listeners=at_once)
        self.at_once = at_once
        nodes = list(pattern.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._numbered_inputs = list(enumerate(self._inputs))
        self._operations = [node for node in nodes if node.op not in ("placeholder", "output")]
        self._returned = list(nodes[-1]._input_nodes)
        self._replaces_inputs = any(node.op == "placeholder" for node in self._returned)
        self._output = nodes[-1].args[0] if nodes[-1].op == "output" else None
        self._path_users = [
            node for node in self._operations if modules_are_captured and node.op in ("call_module", "get_attr")
        ]
        self.captured_paths = {node.target for node in self._path_users}

    def prepare(self, replacement: Graph) -> ReplacingGraph:
        """Return `replacement` in the form for `replace`."""
        return ReplacingGraph(replacement, self._output, self._returned, self._inputs)

    def check_inputs(self, match: InternalMatch, replacement: ReplacingGraph, inputs: list[Any]) -> None:
        """Raise GraphArgumentError (an AssertionError) if `inputs` do not fit a replacement."""
        placeholders = replacement.inputs
        if len(placeholders) != len(inputs):
            raise GraphArgumentError(
                f"Placeholder count mismatch: {len(inputs)} vs {len(placeholders)}: the replacement must have the "
                f"parameters of the pattern, ({', '.join([node.name for node in self._inputs])}), used or not"
            )
        for node, placeholder in replacement.unmatched:
            if node not in match.nodes_map:
                raise GraphArgumentError(
                    f"the replacement uses its parameter {placeholder.name!r}, but the pattern's, {node.name!r}, "
                    "stands for nothing since the pattern does not use it; use it in the pattern too"
                )

    def replace(
        self, match: InternalMatch, replacement: ReplacingGraph, inputs: list[Any], names: Mapping[str, str]
    ) -> list[Node] | None:
        """Put a copy of `replacement`, with paths renamed, in the place of a match; return the new nodes.

        `inputs` are the values of the replacement's placeholders. Return None, and change nothing, if earlier
        replacements made an input one of the match's own values, or computed from one.
        """
        edits, nodes_map = self._edits, match.nodes_map
        has_new_inputs = self._refresh(match)
        if inputs is not match.placeholder_nodes:  # placeholder_nodes are resolved already
            inputs = [edits.resolve(value) for value in inputs]
        val_map: dict[Node, Any] = dict(zip(replacement.inputs, inputs, strict=True))
        matched = [nodes_map[node] for node in self._operations]
        if has_new_inputs and any(_is_among(val_map[node], matched) for node in replacement.read_inputs):
            return None
        readers: _Readers = {}
        everybody: list[Node] = []
        for node in self._returned:
            value = nodes_map[node]
            # A returned input of the pattern may be a constant. A constant has no readers.
            if isinstance(value, Node):
                readers[value] = found = edits.readers(value)
                everybody += found
        needed = [val_map[node] for node in replacement.inputs_computed_with]
        if replacement.returned_inputs:
            needed += self._late_successors(match, replacement, val_map, readers)
        place = edits.make_place(needed, list(readers) or matched, everybody)
        if place is None:
            return None
        if self._replaces_inputs:
            edits.finish()
        copies = edits.insert(place, replacement.body, val_map)
        if self._path_users or names:
            captured = {node.target: nodes_map[node].target for node in self._path_users}
            rename_paths(copies, {**names, **captured})
        edits.discard(matched)
        for node, successor in replacement.successors:
            value = nodes_map[node]
            if isinstance(value, Node):
                new = val_map[successor] if isinstance(successor, Node) else successor
                # The copy may read a value that it replaces, and continues to read it.
                affected = readers[value]
                if self._replaces_inputs:
                    affected = [reader for reader in edits.readers(value) if reader not in copies]
                edits.replace(value, new, affected)
        if self.at_once or self._replaces_inputs:
            edits.finish()
        return copies

    def _late_successors(
        self, match: InternalMatch, replacement: ReplacingGraph, val_map: dict[Node, Any], readers: _Readers
    ) -> list[Node]:
        """Return the inputs that replace a value but stand behind a reader of it."""
        matched = {match.nodes_map[node] for node in self._operations}
        late = []
        for node, successor in replacement.returned_inputs:
            value = match.nodes_map[node]
            if isinstance(value, Node):
                outside = [reader for reader in readers[value] if reader not in matched]
                late += [each for each in nodes_in(val_map[successor]) if outside and each >= min(outside)]
        return late

    def finish(self) -> None:
        """Make the graph whole."""
        self._edits.finish()

    def _refresh(self, match: InternalMatch) -> bool:
        """Put the current replacements in the place of a match's replaced inputs; return whether there were any."""
        nodes_map, edits = match.nodes_map, self._edits
        replaced, found_any = edits.replaced, False
        for index, node in self._numbered_inputs:
            if node in nodes_map:
                value = nodes_map[node]
                if type(value) is not Node or value in replaced:
                    value = nodes_map[node] = edits.resolve(value)
                    found_any = True
                match.placeholder_nodes[index] = value
        return found_any


def _is_among(value: Any, nodes: list[Node]) -> bool:
    return value in nodes if type(value) is Node else any(node in nodes for node in nodes_in(value))


# Returned value of a match -> its readers.
_Readers = dict[Node, list[Node]]
