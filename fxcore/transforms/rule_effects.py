"""Effects of rules: a replacement must draw, write and share memory as its pattern does, at the same moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fxcore.graph import Graph
from fxcore.graph_module import GraphModule
from fxcore.matching.comparison import nodes_in
from fxcore.node import Node
from fxcore.node_data.purity import effects_of_node
from fxcore.nodes.dead_code import may_alias
from fxcore.nodes.shared_storage import SharedStorage

# A function of the user ("call") is taken for one that only computes: the author of a rule knows the function.
_KINDS = ("random", "io", "collective", "state")


class GraphEffects(NamedTuple):
    """The effects of some nodes. Values from outside are named by the caller."""

    kinds: Counter[str]
    written: frozenset[Any]  # the values from outside that the nodes write to
    aliases: frozenset[tuple[int, Any]]  # place of a result, and the value from outside that may be its memory


def effects_of_nodes(
    nodes: Iterable[Node], results: Sequence[Node], inputs: dict[Node, Any], module: Any
) -> GraphEffects:
    """Return the effects of `nodes`. `inputs` has the names of values from outside, `results` are the results."""
    sources: dict[Any, frozenset[Any]] = {node: frozenset((name,)) for node, name in inputs.items()}
    kinds: Counter[str] = Counter()
    written: set[Any] = set()
    for node in nodes:
        effects = effects_of_node(node, module)
        kinds.update(kind for kind in effects.kinds_of_call(node.args, node.kwargs) if kind in _KINDS)
        for value in nodes_in(effects.written(node.args, node.kwargs)):
            written |= sources.get(value, frozenset())
        shared: list[Node] = []
        if node.op.startswith("call_") and "call" not in effects.kinds and may_alias(node, module):
            is_view = "view" in effects.facts or effects.aliases == "first"
            shared = node.all_input_nodes[:1] if is_view else node.all_input_nodes
        sources[node] = frozenset().union(*[sources.get(value, frozenset()) for value in shared])
    aliases = {(place, name) for place, each in enumerate(results) for name in sources.get(each, ())}
    return GraphEffects(kinds, frozenset(written), frozenset(aliases))


def effects_of_graph(graph: Graph) -> GraphEffects:
    """Return the effects of a graph. Its inputs are named by their places."""
    *nodes, output = graph.nodes
    inputs = {node: place for place, node in enumerate(node for node in nodes if node.op == "placeholder")}
    calls = [node for node in nodes if node.op != "placeholder"]
    return effects_of_nodes(calls, nodes_in(output.args), inputs, graph.owning_module)


def lost_effects(pattern: GraphEffects, replacement: GraphEffects) -> str:
    """Return in words the effects that differ; empty if both draw, write and communicate alike."""
    for kind in _KINDS:
        if pattern.kinds[kind] != replacement.kinds[kind]:
            return (
                f"the pattern has {pattern.kinds[kind]} and the replacement {replacement.kinds[kind]} calls with the "
                f"effect {kind!r}"
            )
    if pattern.written != replacement.written:
        one, other = (f"{len(each.written) or 'no'} of its inputs" for each in (pattern, replacement))
        return f"the pattern writes to {one}, the replacement to {other}"
    return ""


class Surroundings:
    """Answers whether a rewrite at a place keeps the effects of the nodes around it."""

    def __init__(self, gm: GraphModule) -> None:
        """Look for effects in the graph of `gm`."""
        self._gm = gm
        self._storage: SharedStorage | None = None
        nodes = gm.graph.nodes
        self._has_effects = any(
            self._kinds(node) or effects_of_node(node, gm).written(node.args, node.kwargs) for node in nodes
        )

    def _kinds(self, node: Node) -> set[str]:
        return {
            kind for kind in effects_of_node(node, self._gm).kinds_of_call(node.args, node.kwargs) if kind in _KINDS
        }

    def changed(self) -> None:
        """Forget the memory of the graph before an edit."""
        self._storage = None

    @property
    def _shared(self) -> SharedStorage:
        if self._storage is None:
            self._storage = SharedStorage(self._gm.graph.nodes, self._gm)
        return self._storage

    def reason_against_move(self, matched: Sequence[Node], returned: Sequence[Node]) -> str:
        """Return why the matched calls must not move together, to the first reader of a result; empty if they may."""
        if not self._has_effects:
            return ""
        kinds = set().union(*map(self._kinds, matched))
        writes = [node for node in matched if effects_of_node(node, self._gm).written(node.args, node.kwargs)]
        touched = dict.fromkeys([*matched, *(value for node in matched for value in node.all_input_nodes)])
        for node in self._between(matched, returned):
            shared = kinds & self._kinds(node)
            if shared:
                return (
                    f"{node.name} between its calls has the effect {min(shared)!r}, too, and their order would change"
                )
            if writes and not self._is_apart(node, touched):
                return f"{node.name} between its calls shares memory that the match writes to"
            for value in touched:
                if node in self._shared.writers(value):
                    return f"{node.name} writes to memory of {value.name} between its calls"
        return ""

    def _is_apart(self, node: Node, touched: Iterable[Node]) -> bool:
        near = {id(each) for value in touched for each in (value, *self._shared.made_before(value))}
        return all(id(each) not in near for each in (node, *node.all_input_nodes))

    def _between(self, matched: Sequence[Node], returned: Sequence[Node]) -> Iterator[Node]:
        """Yield the other nodes from the first matched call to the place of the replacement."""
        first, last = min(matched), max(matched)
        readers = [user for value in returned for user in value.users if user not in matched]
        end = max(last, min(readers)) if readers else last
        node = first
        while node is not end:
            if node not in matched:
                yield node
            node = node.next

    def reason_against_sharing(self, inputs: Sequence[Node], returned: Sequence[Node]) -> str:
        """Return why the results must share memory with the inputs as before; empty if nobody can notice."""
        shared = self._shared
        for value in (*returned, *inputs):
            writers = shared.writers(value)
            if writers:
                return f"{writers[0].name} writes to memory of {value.name}, which the rule shares otherwise"
        outside = [each for each in inputs if shared.is_returned(each) or self._is_from_outside(each)]
        if outside and any(map(shared.is_returned, returned)):
            return f"the graph returns the result, and the rule changes whether it shares memory with {outside[0].name}"
        return ""

    def _is_from_outside(self, node: Node) -> bool:
        return any(each.op in ("placeholder", "get_attr") for each in (node, *self._shared.made_before(node)))
