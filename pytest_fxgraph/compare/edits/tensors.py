"""Parameters, buffers and constants that were tied, came, went or changed, and state that a step updates otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.compare.edits.compared_graph import ComparedGraph, Occurrence
from pytest_fxgraph.compare.edits.operator_words import described_state, without_numbers
from pytest_fxgraph.compare.graph_index import GraphIndex

_MOST_NAMED = 3
# Fields that change together where a parameter becomes a buffer, or is quantized by hand.
_TOLD_TOGETHER = frozenset({"kind", "value", "requires_grad"})
_QUANTIZED = " as "  # "float32[8, 8] as int8 per channel"
_UPDATE = "update."  # scope of the nodes that write the state of a step


def changed_sharing(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find tensors and modules that are no longer one object, or that became one."""
    for by_path, noun in ((graph.state, "storage"), (graph.modules, "the module")):
        for is_tied in (False, True):
            yield from _sharing(graph, by_path, noun, is_tied)


def _sharing(
    graph: ComparedGraph, by_path: Mapping[str, Sequence[Change]], noun: str, is_tied: bool
) -> Iterator[Occurrence]:
    groups: dict[str, dict[str, Change]] = {}
    for path, changes in by_path.items():
        for change in changes:
            owner, other = (change.obtained, change.expected) if is_tied else (change.expected, change.obtained)
            if change.field == "same_as" and owner and (is_tied or not other):
                groups.setdefault(owner, {})[path] = change
    for owner, members in groups.items():
        others = [path for path in members if path != owner]
        if not others:
            continue
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        named = ", ".join(others[:_MOST_NAMED]) + more
        verb = f"share{'' if len(others) > 1 else 's'}"
        verb = f"now {verb}" if is_tied else f"no longer {verb}"
        kind = "tied" if is_tied else "untied"
        key = (kind, *sorted({without_numbers(path) for path in [owner, *others]}))
        site = graph.site(others[0])
        changes = [*members.values(), *_readers(graph, {owner, *others})]
        yield Occurrence(kind, f"{named} {verb} {noun} with {owner}", key, site, changes)


def _readers(graph: ComparedGraph, paths: Set[str]) -> Iterator[Change]:
    """Yield the changes of nodes that read a tensor under another of its paths."""
    nodes, others = graph.expected.nodes, graph.obtained.nodes
    for position, partner, changes in graph.pair_changes():
        read, now_read = graph.expected.inputs[position], graph.obtained.inputs[partner]
        pairs = [pair for pair in zip(read, now_read, strict=False) if graph.alignment.obtained_of[pair[0]] != pair[1]]
        is_shared = all(nodes[n].target in paths and others[m].target in paths for n, m in pairs)
        if pairs and is_shared and len(read) == len(now_read):
            yield from (change for change in changes if change.kind == "wiring")


def changed_tensors(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find tensors that came, went, or differ in dtype, shape, kind, content or another field."""
    for path, changes in graph.state.items():
        owner, _, name = path.rpartition(".")
        site = graph.site(owner, graph.expected.callers(path), graph.obtained.callers(path))
        quantized = _quantized(graph, path, changes)
        if quantized is not None:
            kind, text = quantized
            yield Occurrence(kind, text, (kind, without_numbers(text)), site, changes)
            continue
        fields = {change.field for change in changes}
        if fields <= _TOLD_TOGETHER and "kind" in fields:
            told = [_changed(graph, path, name, change) for change in changes]
            text = ", ".join(
                text if n == 0 else text.removeprefix(f"{_kind(graph, path)} {name}: ")
                for n, (text, _) in enumerate(told)
            )
            yield Occurrence("tensor", text, tuple(part for _, key in told for part in key), site, changes)
            continue
        for change in changes:
            if change.action in ("added", "removed"):
                kind, _, value = (change.expected or change.obtained).partition(" ")
                text = f"{kind} {described_state(path, value)} {change.action}"
                key: tuple[str, ...] = ("tensor", change.action, kind, name)
            else:
                text, key = _changed(graph, path, name, change)
            is_unnamed = change.field == "requires_grad"
            yield Occurrence("tensor", text, key, graph.site(path) if is_unnamed else site, [change])


def _quantized(graph: ComparedGraph, path: str, changes: Sequence[Change]) -> tuple[str, str] | None:
    """Return the kind and the words of a tensor that was quantized or dequantized; its class changes with it."""
    value = next((change for change in changes if change.field == "value"), None)
    if value is None or (_QUANTIZED in value.expected) == (_QUANTIZED in value.obtained):
        return None
    kind = "quantized" if _QUANTIZED in value.obtained else "dequantized"
    record = graph.obtained.state[path]
    # Without the shape, so that tensors of several shapes are one edit.
    texts = [text.partition(_QUANTIZED)[2] or text.partition("[")[0] for text in (value.expected, value.obtained)]
    return kind, f"{record.kind} {path.rpartition('.')[2]} {kind}: {' -> '.join(texts)}"


def _kind(graph: ComparedGraph, path: str) -> str:
    record = graph.obtained.state.get(path)
    return record.kind if record is not None else "tensor"


def _changed(graph: ComparedGraph, path: str, name: str, change: Change) -> tuple[str, tuple[str, ...]]:
    kind = _kind(graph, path)
    transition = f"{change.expected or 'nothing'} -> {change.obtained or 'nothing'}"
    if change.field == "content":
        return f"{kind} {name}: values {change.remark or transition}", ("tensor", "content", kind, name)
    if change.field == "requires_grad":
        return f"requires_grad {transition}", ("tensor", "requires_grad", transition)
    if change.field == "persistent":
        words = "is no longer" if change.obtained == "False" else "is now"
        return f"{kind} {name} {words} in the state dict", ("tensor", "persistent", change.obtained, name)
    field = "" if change.field == "value" else f" {change.field.removeprefix('config.')}"
    return f"{kind} {name}:{field} {transition}", ("tensor", change.field, kind, name, without_numbers(transition))


# State at the end of a training step.


def changed_updates(graph: ComparedGraph) -> Iterator[Occurrence]:
    """Find state that a step no longer updates, updates since now, or updates by another value."""
    for index, lone, words in (
        (graph.expected, graph.removed, "is no longer updated"),
        (graph.obtained, graph.added, "is updated now"),
    ):
        for position, change in list(lone.items()):
            path = _updated(index, position)
            if path:
                places = ([position], []) if index is graph.expected else ([], [position])
                yield Occurrence(
                    "update", f"{path} {words}", ("update", change.action), graph.site("", *places), [change]
                )
    for position, partner, changes in list(graph.pair_changes()):
        path = _updated(graph.expected, position)
        rewired = [change for change in changes if change.kind == "wiring"]
        if not path or path != _updated(graph.obtained, partner) or not rewired:
            continue
        value, other = (index.nodes[index.inputs[at][-1]].name
                        for index, at in ((graph.expected, position), (graph.obtained, partner)))  # fmt: skip
        text = f"{path} is updated by %{other} in place of %{value}"
        yield Occurrence("update", text, ("update", "value"), graph.site("", [position], [partner]), rewired)


def _updated(index: GraphIndex, position: int) -> str:
    """Return the path of the state that a node writes at the end of a step; "" for any other node."""
    node, inputs = index.nodes[position], index.inputs[position]
    if not (node.scope or "").startswith(_UPDATE) or node.target != "aten.copy_.default" or not inputs:
        return ""
    written = index.nodes[inputs[0]]
    return written.target if written.op == "get_attr" else ""
