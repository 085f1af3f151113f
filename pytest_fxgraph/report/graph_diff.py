"""One unified diff of two graphs in the text of a golden, and the hunks of it that show changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pytest_fxgraph.compare.alignment import align
from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.expected_terms import in_expected_terms
from pytest_fxgraph.compare.graph_index import graph_index_of
from pytest_fxgraph.compare.isomorphism import Alignment
from pytest_fxgraph.compare.sequence_alignment import longest_increasing
from pytest_fxgraph.document import text_writer
from pytest_fxgraph.document.model import (
    GraphDocument,
    ModuleRecord,
    NodeRecord,
    StateRecord,
    with_references,
)
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.printable import counted

_AROUND = 3  # unchanged nodes on each side of a change
_MOST_LINES = 24  # of one hunk

Pair = tuple[int, int]  # positions of a line in both graphs; -1 for a line that a graph lacks
Place = tuple[int, str, str]  # side, 0 or 1; "node", "input", "module" or "state"; name, parameter or path
_Record = NodeRecord | ModuleRecord | StateRecord


def node_line(node: NodeRecord) -> str:
    """Return a node as one line."""
    return clipped(_text_of(node))


class GraphDiff:
    """The lines of two graphs side by side, in an order that holds the lines of each graph in its own order.

    Nodes are paired here unless a comparison hands over its `alignment`. Aligned nodes of one operator have the
    golden's name on both sides, as in the golden after an update, unless `keeps_names`: a renumbered node is no
    difference. `hunks` shows each line once.
    """

    def __init__(
        self,
        expected: GraphDocument,
        obtained: GraphDocument,
        alignment: Alignment | None = None,
        *,
        keeps_names: bool = False,
    ) -> None:
        self._keeps_names = keeps_names
        if alignment is None:
            terms = obtained if keeps_names else in_expected_terms(expected, obtained)
            alignment = align(graph_index_of(expected), graph_index_of(terms))
        self._alignment = alignment
        self._names = {} if keeps_names else _golden_names(alignment)
        expected, obtained = alignment.expected.document, alignment.obtained.document
        self._records: dict[str, tuple[Sequence[_Record], Sequence[_Record]]] = {
            "node": (expected.nodes, obtained.nodes),
            "module": (expected.modules, obtained.modules),
            "state": (expected.state, obtained.state),
        }
        self._orders: dict[str, list[Pair]] = {}
        self._all_numbers: dict[str, Mapping[Place, int]] = {}
        self._shown: dict[str, set[int]] = {part: set() for part in self._records}
        self._inner: dict[str, GraphDiff | None] = {}

    def lines(self, part: str = "node") -> list[str]:
        """Return all lines of a part: "node", "module" or "state"."""
        return [line for number in range(len(self._order(part))) for line in self._lines_at(part, number)]

    def hunks(self, places: Iterable[Place]) -> list[str]:
        """Return the lines around places, without lines that an earlier hunk shows; [] if none of them is a change.

        `  ...` stands between lines that are no neighbours.
        """
        own: dict[str, set[int]] = {part: set() for part in self._records}
        inside: dict[str, list[Place]] = {}
        for side, part, name in places:
            path, slash, rest = name.partition("/")
            if slash:
                inside.setdefault(path, []).append((side, part, rest))
                continue
            of_part = "node" if part == "input" else part
            number = self._numbers(of_part).get((side, part, name))
            if number is not None:
                own[of_part].add(number)
        lines = [line for part, numbers in own.items() for line in self._hunk(part, numbers)]
        for path, found in inside.items():
            if (inner := self._inner_diff(path)) is not None:
                lines += inner.hunks(found)
        return lines

    def _order(self, part: str) -> list[Pair]:
        if part not in self._orders:
            sides = self._records[part]
            pairs = self._alignment.pairs() if part == "node" else _pairs_of_paths(*sides)
            self._orders[part] = _merged(pairs, *map(len, sides))
        return self._orders[part]

    def _numbers(self, part: str) -> Mapping[Place, int]:
        """Return the number in the order of each line of a part, by the names that changes give it."""
        if part in self._all_numbers:
            return self._all_numbers[part]
        found: dict[Place, int] = {}
        order = self._order(part)
        for side, records in enumerate(self._records[part]):
            for number, pair in enumerate(order):
                if pair[side] < 0:
                    continue
                record = records[pair[side]]
                found[side, part, record[0]] = number
                if isinstance(record, NodeRecord) and record.op == "placeholder":
                    found[side, "input", record.target] = number
        self._all_numbers[part] = found
        return found

    def _hunk(self, part: str, numbers: set[int]) -> list[str]:
        if not numbers:
            return []
        shown, order = self._shown[part], self._order(part)
        around = _AROUND if part == "node" else 0
        wanted = {near for each in numbers - shown for near in range(each - around, each + around + 1)} - shown
        lines: list[str] = []
        taken: list[int] = []
        for number in sorted(number for number in wanted if 0 <= number < len(order)):
            if len(lines) >= _MOST_LINES:
                left = sum(each >= number for each in numbers)
                lines += [f"  and {counted(left, 'more changed line')}"] if left else []
                break
            lines += ["  ..."] if taken and number > taken[-1] + 1 else []
            lines += self._lines_at(part, number)
            taken.append(number)
        if not any(line[0] in "-+" for line in lines):
            return []
        shown.update(taken)
        return lines

    def _lines_at(self, part: str, number: int) -> Iterator[str]:
        position, partner = self._order(part)[number]
        expected, obtained = self._records[part]
        before = _text_of(expected[position]) if position >= 0 else None
        after = _text_of(self._renamed(obtained[partner])) if partner >= 0 else None
        if before == after:
            yield f"  {clipped(before or '')}"
            return
        # Two texts that differ in their middle alone are shown whole.
        is_cut_alike = before is not None and after is not None and clipped(before) == clipped(after)
        for mark, text in (("-", before), ("+", after)):
            if text is not None:
                yield f"{mark} {text if is_cut_alike else clipped(text)}"

    def _renamed(self, record: _Record) -> _Record:
        if not isinstance(record, NodeRecord) or not self._names:
            return record
        return with_references(record, self._names, name=self._names.get(record.name, record.name))

    def _inner_diff(self, path: str) -> GraphDiff | None:
        """Return the diff of the graphs inside a module of both graphs."""
        if path not in self._inner:
            modules = [each for side in self._records["module"] for each in side if isinstance(each, ModuleRecord)]
            graphs = [each.graph for each in modules if each.path == path and each.graph is not None]
            inner = None
            if len(graphs) > 1:
                alignment = self._alignment.inner.get(path)
                inner = GraphDiff(graphs[0], graphs[1], alignment, keeps_names=self._keeps_names)
            self._inner[path] = inner
        return self._inner[path]


def places_of(change: Change) -> Iterator[Place]:
    """Yield the lines of both graphs that a change is about."""
    if change.subject in ("node", "input", "output", "module", "state"):
        part = "node" if change.subject == "output" else change.subject
        if change.action != "added":
            yield 0, part, change.expected_node or change.where
        if change.action != "removed":
            yield 1, part, change.where
    if change.node:
        yield 1, "node", change.node


def _golden_names(alignment: Alignment) -> dict[str, str]:
    """Map the names of obtained nodes to the names that they have in the golden after an update."""
    nodes, obtained_nodes = alignment.expected.nodes, alignment.obtained.nodes
    kept = {
        obtained_nodes[partner].name: nodes[position].name
        for position, partner in alignment.pairs()
        if nodes[position][1:3] == obtained_nodes[partner][1:3]
    }
    taken = {*kept.values()}
    for node in obtained_nodes:
        if node.name in kept:
            continue
        name, number = node.name, 0
        while name in taken:
            number += 1
            name = f"{node.name}_{number}"
        taken.add(name)
        kept[node.name] = name
    return {name: other for name, other in kept.items() if name != other}


def _pairs_of_paths(expected: Sequence[_Record], obtained: Sequence[_Record]) -> list[Pair]:
    positions = {record[0]: position for position, record in enumerate(obtained)}
    return [(place, positions[record[0]]) for place, record in enumerate(expected) if record[0] in positions]


def _merged(pairs: Collection[Pair], size: int, obtained_size: int) -> list[Pair]:
    """Merge the lines of two graphs. Lines that only one graph has stand together between two pairs.

    A pair whose lines stand in another order is split.
    """
    found = [*pairs]
    fixed = [found[index] for index in longest_increasing([partner for _, partner in found])]
    order: list[Pair] = []
    last, last_obtained = 0, 0
    for position, partner in (*fixed, (size, obtained_size)):
        order += [(lone, -1) for lone in range(last, position)]
        order += [(-1, lone) for lone in range(last_obtained, partner)]
        order.append((position, partner))
        last, last_obtained = position + 1, partner + 1
    return order[:-1]


def _text_of(record: _Record) -> str:
    if isinstance(record, NodeRecord):
        return text_writer.node_line(record, record.name, text_writer.Texts(), "")
    if isinstance(record, ModuleRecord):
        return text_writer.module_texts([record._replace(graph=None)], "")[0]
    return text_writer.state_texts([record], "")[0]
