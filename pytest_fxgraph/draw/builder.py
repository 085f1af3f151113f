"""The nodes and clusters of a picture, made from a document or from the overlay of two documents."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise, takewhile

from pytest_fxgraph.document.folding import Block, NotFoldableError, blocks_of_level
from pytest_fxgraph.document.literals import references, rename_references, without_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, with_references
from pytest_fxgraph.document.text_writer import Ends, GraphText
from pytest_fxgraph.draw.overlay import NOT_COMPARED, MergedNode, merged_nodes
from pytest_fxgraph.draw.picture import FEWEST_FOLDED, Cluster, DrawnNode, Edge, Fact, Picture, lay_in_layers
from pytest_fxgraph.report.numbered_paths import format_paths

_MOST_CHILDREN = 120  # of a cluster; a larger cluster is drawn in parts
_PART = 40
_FEWEST_UNCHANGED = 3  # unchanged nodes; fewer nodes get no box of their own
_LONGEST_LITERALS = 22
_MOST_LAYERS = 8  # that repeat together: a model may have five layers of local attention, then one of global attention
_MOST_BOXES = 24  # nested boxes; deeper nodes are drawn in the innermost box
_SHAPE = re.compile(r"\b(?:(?:b?float|u?int|complex|bits|quint|qint)\w*|bool)\[([^\]]*)\]")
_EQUAL_NUMBERS = re.compile(r"\((-?[\d.]+)(?:, \1)+\)\Z")
_HOMES = re.compile(r"\A(?:aten|prims|torch\.nn\.functional|torch\.ops|torch|operator|builtins|math)\.")
_SORTS = {"placeholder": "input", "output": "output", "get_attr": "state", "call_module": "module"}

Key = tuple[str, str]  # sort and name of a cluster


def picture_of(expected: GraphDocument, obtained: GraphDocument | None = None, *, title: str) -> Picture:
    """Return the picture of one document, or the overlay of two documents."""
    merged = merged_nodes(expected, obtained)
    return picture_of_nodes(merged, is_overlay=obtained is not None, title=title, sources={})


def picture_of_nodes(
    merged: Sequence[MergedNode], *, is_overlay: bool, title: str, sources: Mapping[str, str]
) -> Picture:
    """Return the picture of the merged nodes of one graph, or of two for an overlay.

    `sources` maps the names of the last document's nodes to lines of the model, because golden files hold no lines.
    """
    kept, attached = _without_private_state(merged)
    order = {old: new for new, old in enumerate(kept)}
    paths = [_module_keys(merged[old]) for old in kept]
    if len(kept) >= FEWEST_FOLDED:
        _fold_repeated([merged[old] for old in kept], [attached.get(old, ()) for old in kept], paths)
    nodes = [_drawn(merged[old], attached.get(old, ()), sources) for old in kept]
    edges = tuple(
        Edge(order[edge.source], order[old], edge.status)
        for old in kept
        for edge in merged[old].reads
        if edge.source in order
    )
    clusters = _Clusters(nodes, edges, paths, is_overlay=is_overlay)
    clusters.build(title)
    named = tuple(clusters.with_place(number, node) for number, node in enumerate(nodes))
    return lay_in_layers(Picture(title, named, edges, tuple(clusters.all), is_overlay))


def _without_private_state(merged: Sequence[MergedNode]) -> tuple[list[int], dict[int, list[MergedNode]]]:
    """Return the drawn nodes, with each tensor right before its first reader, and the tensors with a single reader.

    An unchanged tensor with one reader is shown as a fact of the reader.
    """
    readers: dict[int, list[int]] = {}
    for position, node in enumerate(merged):
        for edge in node.reads:
            readers.setdefault(edge.source, []).append(position)
    attached: dict[int, list[MergedNode]] = {}
    before: dict[int, list[int]] = {}
    kept: list[int] = []
    for position, node in enumerate(merged):
        found = readers.get(position, [])
        if node.record.op != "get_attr" or not found:
            kept.append(position)
        elif len(found) == 1 and not node.status and not _edge_status(merged[found[0]], position):
            attached.setdefault(found[0], []).append(node)
        else:
            before.setdefault(min(found), []).append(position)
    return [each for position in kept for each in (*before.get(position, ()), position)], attached


def _edge_status(reader: MergedNode, source: int) -> str:
    return next((edge.status for edge in reader.reads if edge.source == source), "")


def _module_keys(node: MergedNode) -> list[Key]:
    """Return the modules around a node, the outermost first."""
    parts = (node.record.scope or (node.expected.scope if node.expected else None) or "").split(".")
    return [("module", ".".join(parts[: end + 1])) for end in range(min(len(parts), _MOST_BOXES))] if parts[0] else []


def _plain_record(node: MergedNode, tensors: Sequence[MergedNode]) -> NodeRecord:
    """Return a record whose text tells the node apart from nodes of other blocks by everything but its place."""
    record, path = node.record, node.record.scope or ""
    parts = [each for each in node.facts if each.what.startswith(("module", "tensor"))]
    parts += [fact for tensor in tensors for fact in tensor.facts if fact.what in ("value", "tensor")]
    target = record.target
    if record.op in ("call_module", "get_attr") and target.startswith(f"{path}." if path else ""):
        path, target = target, ""
    told = (node.status, *((fact.what, fact.expected, fact.obtained) for fact in parts))
    return record._replace(target=f"{record.op} {target}", scope=path, meta=(*record.meta, ("facts", str(told))))


def _fold_repeated(
    nodes: Sequence[MergedNode], tensors: Sequence[Sequence[MergedNode]], paths: list[list[Key]]
) -> None:
    """Put every repetition of a block except the first into its own cluster.

    In an overlay, blocks repeat that are equal in both graphs, and only blocks with changes are put together.
    """
    is_overlay = any(node.expected is not None for node in nodes)
    is_changed = [bool(node.status) for node in nodes] if is_overlay else None
    # With one change, nothing can be there twice, and looking takes a tenth of a page.
    if is_changed is not None and sum(is_changed) < 2:
        return
    # Names tell no blocks apart. The two graphs may give one name to different nodes.
    before = {node.expected.name: f"n_{place}" for place, node in enumerate(nodes) if node.expected is not None}
    after = {node.obtained.name: f"n_{place}" for place, node in enumerate(nodes) if node.obtained is not None}
    records = []
    for place, node in enumerate(nodes):
        was: tuple[tuple[str, str], ...] = ()
        if node.expected is not None and node.obtained is not None and node.status:
            was = (("was", ", ".join(rename_references(text, before) for text in _texts(node.expected))),)
        record = _plain_record(node, tensors[place])
        names = after if node.obtained is not None else before
        record = with_references(record, names, name=f"n_{place}")
        records.append(record._replace(meta=(*record.meta, *was)))
    with contextlib.suppress(NotFoldableError):
        text = GraphText(records)
        _fold_level(text, text.blocks, paths, is_changed)


def _texts(record: NodeRecord) -> list[str]:
    return [record.target, *record.args, *(f"{keyword}={text}" for keyword, text in record.kwargs)]


def _fold_level(
    text: GraphText, blocks: Sequence[Block[Ends]], paths: list[list[Key]], is_changed: Sequence[bool] | None
) -> None:
    """Fold the repetitions among some blocks, and among the blocks inside the blocks that stay."""
    alike = [(block.template or block.run.path, block.changes) for block in blocks]
    start = 0
    while start < len(blocks):
        length, count = _repetition(blocks, alike, start)
        further = blocks[start + length : start + length * count]
        for block in blocks[start : start + length]:
            inner = blocks_of_level(text, block.run.start, block.run.stop, f"{block.run.path}.")
            _fold_level(text, inner, paths, is_changed)
        if further and (is_changed is None or any(is_changed[further[0].run.start : further[-1].run.stop])):
            inside = range(further[0].run.start, further[-1].run.stop)
            # With the first block, because a single further block has a path of its own.
            levels = zip(*(paths[place] for place in range(blocks[start].run.start, inside.stop)), strict=False)
            depth = sum(1 for _ in takewhile(lambda keys: len({*keys}) == 1, levels))
            firsts = [block.run.path for block in further[::length]]
            label = f"{count - 1} more: {format_paths(firsts)}"
            for place in inside:
                paths[place].insert(
                    depth, ("repeated", label if is_changed is None else f"\N{MULTIPLICATION SIGN}{count}, {label}")
                )
        start += length * count


def _repetition(blocks: Sequence[Block[Ends]], alike: Sequence[object], start: int) -> tuple[int, int]:
    """Return the number of layers that repeat from here, and how often. More layers have to save twice as much."""
    best, saved = (1, 1), 0
    for length in range(1, _MOST_LAYERS + 1):
        end = start + length
        while alike[end : end + length] == alike[start : start + length] and all(
            before.run.stop == block.run.start for before, block in pairwise(blocks[end - 1 : end + length])
        ):
            end += length
        if end - start - length > 2 * saved:
            best, saved = (length, (end - start) // length), end - start - length
    return best


def _drawn(node: MergedNode, tensors: Sequence[MergedNode], sources: Mapping[str, str]) -> DrawnNode:
    record = node.record
    sort = _SORTS.get(record.op, "call")
    label, value = _label(record, _kind(node, record, is_obtained=node.obtained is not None)), short_value(record.value)
    sides: tuple[tuple[str, str], ...] = ()
    if node.expected is not None and node.obtained is not None and node.status:
        before = _label(node.expected, _kind(node, node.expected, is_obtained=False)), short_value(node.expected.value)
        sides = (before, (label, value)) if before != (label, value) else ()
        operators = [text.partition("(")[0] for text in (before[0], label)]
        if sort in ("call", "module") and operators[0] != operators[1]:
            label = f"{operators[0]} → {label}"
        if before[1] and value and before[1] != value:
            value = f"{before[1]} → {value}"
    facts = [*node.facts]
    for tensor in tensors:
        texts = [fact.obtained for fact in tensor.facts if fact.what == "tensor"] or [tensor.record.value or ""]
        facts.append(Fact(f"reads {tensor.record.target}", texts[0], texts[0]))
    source = sources.get(record.name) if node.obtained is not None else None
    facts += [Fact("source", source, source)] if source else []
    change = _changed_field(node, is_told={"operation", "target"} if " → " in label else {"operation"})
    return DrawnNode(record.name, label, "", sort, value, node.status, tuple(facts), sides, change)


def _changed_field(node: MergedNode, is_told: Collection[str]) -> str:
    """Return the first changed field of a node in both graphs, with the number of further ones: "stride 2 → 1".

    Wiring and shapes are left out, because they are drawn. So is the configuration of a module of another class.
    """
    if node.status != "changed":
        return ""
    found: list[str] = []
    for fact in node.facts:
        is_same = without_references(fact.expected) == without_references(fact.obtained)
        if is_same or fact.what in is_told or fact.what in (*NOT_COMPARED, "value", "module"):
            continue
        before, after = _short_texts(fact)
        what = re.sub(r"^(module, |tensor |target$)", "", fact.what)
        found.append(f"{what} {before} → {after}".lstrip())
    if any(fact.what == "module" and fact.expected != fact.obtained for fact in node.facts):
        return ""
    return found[0] + (f", +{len(found) - 1} more" if len(found) > 1 else "") if found else ""


def _short_texts(fact: Fact) -> tuple[str, str]:
    """Return both texts of a fact: the shapes of tensors, one number for a tuple of equal numbers."""
    shapes = short_value(fact.expected), short_value(fact.obtained)
    if all(shapes) and shapes[0] != shapes[1]:
        return shapes
    numbers = [_EQUAL_NUMBERS.match(text) for text in (fact.expected, fact.obtained)]
    if numbers[0] and numbers[1]:
        return numbers[0][1], numbers[1][1]
    return fact.expected or "nothing", fact.obtained or "nothing"


def _kind(node: MergedNode, record: NodeRecord, *, is_obtained: bool) -> str:
    """Return the class of the module that a node calls, or the module's path if the class is not known."""
    kinds = [fact.obtained if is_obtained else fact.expected for fact in node.facts if fact.what == "module"]
    return next(filter(None, kinds), record.target)


def _label(record: NodeRecord, kind: str) -> str:
    sort = _SORTS.get(record.op, "call")
    return {
        "input": record.target,
        "output": "output",
        "state": record.target.rpartition(".")[2],
        "module": kind.rpartition(".")[2],
    }.get(sort) or _call_label(record)


def _call_label(record: NodeRecord) -> str:
    """Return the operator, with its short literal arguments."""
    target = _HOMES.sub("", record.target)
    target = re.sub(r"\.(default|Tensor|Scalar|int|self|dim|dim_IntList)$", "", target)
    if record.op == "call_method":
        target = f".{target}"
    texts = [*record.args, *(f"{keyword}={text}" for keyword, text in record.kwargs)]
    plain = ", ".join(text for text in texts if not references(text))
    return f"{target}({plain})" if plain and len(plain) <= _LONGEST_LITERALS else target


def short_value(value: str | None) -> str:
    """Return the shapes in the text of a value, with a multiplication sign between sizes, at most the first few."""
    shapes = [shape.replace(", ", "\N{MULTIPLICATION SIGN}") or "scalar" for shape in _SHAPE.findall(value or "")]
    return ", ".join(shapes[:2]) + (f", … {len(shapes)}" if len(shapes) > 2 else "")


class _Clusters:
    """Builds the clusters of a picture from the module paths of its nodes, which are in execution order."""

    def __init__(
        self, nodes: Sequence[DrawnNode], edges: Sequence[Edge], paths: Sequence[Sequence[Key]], *, is_overlay: bool
    ) -> None:
        self.all: list[Cluster] = []
        self._nodes, self._paths, self._is_overlay = nodes, paths, is_overlay
        is_changed = [node.status not in ("", "followed") for node in nodes]
        self._near = {number for number, changed in enumerate(is_changed) if changed}  # and their neighbours
        for edge in edges:
            if edge.status or is_changed[edge.source] or is_changed[edge.target]:
                self._near.update((edge.source, edge.target))
        self._parent_path: dict[int, str] = {}

    def build(self, title: str) -> None:
        """Make the cluster of the whole graph with all inner clusters."""
        root = self._new(title, "graph", "")
        self._fill(root, range(len(self._nodes)), 0)

    def with_place(self, number: int, node: DrawnNode) -> DrawnNode:
        """Return a node with its module path, relative to the cluster around the node."""
        scope = self._paths[number][-1][1] if self._paths[number] else ""
        path = next((fact.obtained or fact.expected for fact in node.facts if fact.what == "target"), "")
        path = path if node.sort in ("module", "state") else scope
        around = self._parent_path.get(number, "")
        place = "" if path == around else _relative(path, around)
        return replace(node, place="" if node.sort == "input" or place == node.label else place)

    def _new(self, label: str, sort: str, path: str) -> Cluster:
        cluster = Cluster(len(self._nodes) + len(self.all), label, sort, path)
        self.all.append(cluster)
        return cluster

    def _fill(self, cluster: Cluster, inside: Sequence[int], depth: int) -> None:
        """Put nodes into a cluster. Neighbouring nodes of one module go into an inner cluster."""
        runs = [*_runs(inside, self._paths, depth)]
        while len(runs) == 1 and runs[0][0] is not None and cluster.sort == "module":
            cluster.path = runs[0][0][1]  # one box is enough around everything
            depth += 1
            runs = [*_runs(inside, self._paths, depth)]
        for key, members in runs:
            if key is None or (len(members) == 1 and key[0] == "module"):
                cluster.children += members
                self._parent_path.update(dict.fromkeys(members, cluster.path))
                continue
            inner = self._new(key[1], key[0], key[1] if key[0] == "module" else cluster.path)
            self._fill(inner, members, depth + 1)
            if inner.sort == "module":
                inner.label = _relative(inner.path, cluster.path)
            cluster.children.append(inner.number)
        self._count(cluster, inside)
        if self._is_overlay and cluster.changes and len(self._nodes) >= FEWEST_FOLDED:
            self._fold_unchanged(cluster)
        self._split(cluster)

    def _count(self, cluster: Cluster, inside: Sequence[int]) -> None:
        statuses = Counter(self._nodes[number].status for number in inside)
        cluster.nodes = len(inside)
        cluster.changes = {status: count for status, count in statuses.items() if status not in ("", "followed")}

    def _members(self, child: int) -> Sequence[int]:
        if child < len(self._nodes):
            return [child]
        cluster = self.all[child - len(self._nodes)]
        return [member for each in cluster.children for member in self._members(each)]

    def _fold_unchanged(self, cluster: Cluster) -> None:
        """Put runs of unchanged nodes far from any change into boxes of their own."""
        children: list[int] = []
        waiting: list[int] = []

        def put_waiting() -> None:
            members = [member for child in waiting for member in self._members(child)]
            if len(waiting) > 1 and len(members) >= _FEWEST_UNCHANGED:
                folded = self._new("unchanged", "unchanged", cluster.path)
                folded.children, folded.nodes = [*waiting], len(members)
                folded.label = self._label_of_unchanged(waiting)
                self._split(folded)
                children.append(folded.number)
            else:
                children.extend(waiting)
            waiting.clear()

        for child in cluster.children:
            if self._near.isdisjoint(self._members(child)) and not self._is_interface(child):
                waiting.append(child)
            else:
                put_waiting()
                children.append(child)
        put_waiting()
        cluster.children = children

    def _is_interface(self, child: int) -> bool:
        return child < len(self._nodes) and self._nodes[child].sort in ("input", "output")

    def _label_of_unchanged(self, children: Sequence[int]) -> str:
        paths = [self.all[child - len(self._nodes)].path for child in children if child >= len(self._nodes)]
        return f"unchanged: {format_paths(paths)}" if paths else "unchanged"

    def _split(self, cluster: Cluster) -> None:
        """Draw a cluster with very many children in parts."""
        while len(cluster.children) > _MOST_CHILDREN:
            parts = []
            for start in range(0, len(cluster.children), _PART):
                children = cluster.children[start : start + _PART]
                members = [member for child in children for member in self._members(child)]
                names = self._nodes[members[0]].name, self._nodes[members[-1]].name
                part = self._new(f"{names[0]} … {names[1]}", "part", cluster.path)
                part.children = children
                self._count(part, members)
                parts.append(part.number)
            cluster.children = parts


def _relative(path: str, around: str) -> str:
    """Return a path relative to a module. A bare number keeps the name before it, because it says too little alone."""
    if not around or not path.startswith(f"{around}."):
        return path
    short = path[len(around) + 1 :]
    return f"{around.rpartition('.')[2]}.{short}" if short[:1].isdigit() else short


def _runs(inside: Sequence[int], paths: Sequence[Sequence[Key]], depth: int) -> Iterator[tuple[Key | None, list[int]]]:
    """Yield neighbouring nodes of one cluster together, and other nodes one by one."""
    for key, run in groupby(inside, lambda number: paths[number][depth] if depth < len(paths[number]) else None):
        if key is not None:
            yield key, [*run]
        else:
            yield from ((None, [number]) for number in run)
