"""The nodes of one graph, or the aligned nodes of two graphs merged, in an order that both graphs allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.expected_terms import in_expected_terms
from pytest_fxgraph.compare.graph_index import GraphIndex, graph_index_of
from pytest_fxgraph.compare.node_changes import in_reading_order
from pytest_fxgraph.compare.structure import structure_and_alignment
from pytest_fxgraph.document.costs import CostRecord
from pytest_fxgraph.document.literals import rename_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, StateRecord
from pytest_fxgraph.draw.picture import Edge, Fact
from pytest_fxgraph.grouping import grouped

# Place, name and cost of a node are no difference of the graph.
NOT_COMPARED = ("in module", "name", "source", "cost", "cost of its module")


@dataclass
class MergedNode:
    """A node of either graph, or two aligned nodes."""

    expected: NodeRecord | None
    obtained: NodeRecord | None
    status: str = ""
    facts: tuple[Fact, ...] = ()
    reads: list[Edge] = field(default_factory=list)  # sources are positions in the merged order

    @property
    def record(self) -> NodeRecord:
        """Return the shown record: the obtained record if there is one, else the expected one."""
        record = self.obtained or self.expected
        assert record is not None
        return record


def merged_nodes(expected: GraphDocument, obtained: GraphDocument | None = None) -> list[MergedNode]:
    """Return the nodes of one document, or the overlay of two, with the edges and the status of each."""
    if obtained is None:
        return _merged([_Side(graph_index_of(expected))], [(place,) for place in range(len(expected.nodes))])
    obtained = in_expected_terms(expected, obtained)
    before, after = graph_index_of(expected), graph_index_of(obtained)
    difference, alignment = structure_and_alignment(before, after)
    names = {before.nodes[old].name: after.nodes[new].name for new, old in enumerate(alignment.expected_of) if old >= 0}
    found = _merged([_Side(before, names), _Side(after)], in_reading_order(alignment))
    _add_inner_changes(found, difference)
    return found


def near_changes(nodes: Sequence[MergedNode], most: int) -> list[MergedNode]:
    """Return at most `most` nodes in order: the nodes around each change, or the first nodes if nothing has changed.

    Reads of nodes that are left out are left out too.
    """
    changed = [place for place, node in enumerate(nodes) if node.status]
    around = most // (len(changed) or 1) // 2
    near = {place for each in changed for place in range(max(0, each - around), min(len(nodes), each + around + 1))}
    places = {place: number for number, place in enumerate(sorted(near or range(most))[:most])}
    return [
        replace(
            nodes[place],
            reads=[
                replace(edge, source=places[edge.source], target=number)
                for edge in nodes[place].reads
                if edge.source in places
            ],
        )
        for place, number in places.items()
    ]


def _add_inner_changes(nodes: Sequence[MergedNode], difference: Difference) -> None:
    """Mark nodes that call or read a module whose inner graph differs."""
    inner: dict[str, list[Fact]] = {}
    for change in difference.changes:
        path, slash, where = change.where.partition("/")
        if slash:
            what = " ".join(filter(None, (where, change.action if not change.field else change.field)))
            fact = Fact(f"inside, {what}", change.expected, change.obtained)
            inner.setdefault(path, []).append(fact)
    for node in nodes if inner else ():
        facts = inner.get(node.record.target, ()) if node.record.op in ("call_module", "get_attr") else ()
        if facts:
            node.facts = (*node.facts, *facts)
            node.status = node.status or "changed"


def _merged(sides: Sequence[_Side], pairs: Sequence[tuple[int, ...]]) -> list[MergedNode]:
    """Merge the nodes of one graph, or of two. A position below 0 stands for a node that a graph lacks."""
    for place, pair in enumerate(pairs):
        for side, position in zip(sides, pair, strict=True):
            side.places[position] = place
    found = []
    for place, pair in enumerate(pairs):
        records = [side.record(position) for side, position in zip(sides, pair, strict=True)]
        facts = [side.facts(record) if record is not None else {} for side, record in zip(sides, records, strict=True)]
        reads = [side.reads(position) for side, position in zip(sides, pair, strict=True)]
        node = MergedNode(records[0] if len(sides) > 1 else None, records[-1], facts=_joined(facts[0], facts[-1]))
        node.status = _status(node) if len(sides) > 1 else ""
        node.reads = [
            Edge(source, place, "" if source in reads[0] and source in reads[-1] else _side(source in reads[-1]))
            for source in {**reads[0], **reads[-1]}
        ]
        found.append(node)
    return found


def _side(is_obtained: bool) -> str:
    return "added" if is_obtained else "removed"


def _status(node: MergedNode) -> str:
    if node.expected is None or node.obtained is None:
        return _side(node.obtained is not None)
    differing = {fact.what for fact in node.facts if fact.expected != fact.obtained} - {*NOT_COMPARED}
    if differing <= {"value"}:
        return "followed" if differing and node.record.op != "placeholder" else "changed" if differing else ""
    return "changed"


class _Side:
    """One graph: the facts of its nodes, and their places in the merged order."""

    def __init__(self, index: GraphIndex, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.index, self._names = index, names  # `names` gives nodes the names of the other graph
        self.places: dict[int, int] = {}
        self._state = {record.path: record for record in index.document.state}
        cost = index.document.cost
        self._costs = {} if cost is None else dict(cost.modules)
        self._node_costs = {} if cost is None else cost.by_node

    def record(self, position: int) -> NodeRecord | None:
        """Return the node at a position; None below 0, for a node that the graph lacks."""
        return self.index.nodes[position] if position >= 0 else None

    def reads(self, position: int) -> dict[int, None]:
        """Return the places of the nodes that a node reads, in order."""
        return {self.places[read]: None for read in self.index.inputs[position]} if position >= 0 else {}

    def facts(self, node: NodeRecord) -> dict[str, str]:
        """Return the node's facts as a dict from field name to value."""
        names = self._names
        facts = {"name": node.name, "operation": node.op, "target": node.target}
        for place, text in enumerate(node.args):
            facts[f"args[{place}]"] = rename_references(text, names)
        facts.update({keyword: rename_references(text, names) for keyword, text in node.kwargs})
        facts.update({f"meta {key}": rename_references(text, names) for key, text in node.meta})
        if node.value is not None:
            facts["value"] = node.value
        module = self.index.modules.get(node.target) if node.op == "call_module" else None
        if module is not None:
            facts["module"] = module.kind
            facts.update({f"module, {name}": text for name, text in module.config})
            if module.training is not None:
                facts["module, mode"] = "training" if module.training else "evaluating"
        facts.update(self._state_facts(node))
        facts.update(self._cost_facts(node))
        if node.scope:
            facts["in module"] = node.scope
        if node.source:
            facts["source"] = node.source
        return facts

    def _cost_facts(self, node: NodeRecord) -> Iterator[tuple[str, str]]:
        if not node.op.startswith("call_") or not self._costs:
            return
        of_module = self._costs.get(node.target if node.op == "call_module" else node.scope or "")
        of_node = self._node_costs.get(node.name) or (of_module if node.op == "call_module" else None)
        if of_node is not None:
            yield "cost", _cost_text(of_node)
        elif of_module is not None:
            yield "cost of its module", _cost_text(of_module)

    def _state_facts(self, node: NodeRecord) -> Iterator[tuple[str, str]]:
        if node.op == "get_attr" and (record := self._state.get(node.target)) is not None:
            yield "tensor", _state_text(record)
            return
        for record in self._owned.get(node.target, ()):
            yield f"tensor {record.path[len(node.target) + 1 :]}", _state_text(record)

    @cached_property
    def _owned(self) -> Mapping[str, list[StateRecord]]:
        """Map the path of a module to its own tensors."""
        return grouped(self._state.values(), lambda record: record.path.rpartition(".")[0])


def _cost_text(cost: CostRecord) -> str:
    return f"{cost.flops:,} FLOPs, {cost.bytes:,} bytes, {cost.params:,} parameters"


def _state_text(record: StateRecord) -> str:
    content = f" = {record.content}" if record.content is not None else ""
    return f"{record.kind} {record.value}{content}{', requires grad' if record.requires_grad else ''}"


def _joined(expected: Mapping[str, str], obtained: Mapping[str, str]) -> tuple[Fact, ...]:
    return tuple(Fact(what, expected.get(what, ""), obtained.get(what, "")) for what in {**obtained, **expected})
