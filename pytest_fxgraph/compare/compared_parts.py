"""A document as all levels but `exact` compare it: no unread tensors, no checks by torch.export, ordered metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_fxgraph.document.capture_notes import without_kernels
from pytest_fxgraph.document.literals import references
from pytest_fxgraph.document.model import GraphDocument, StateRecord, graphs_of, texts_of, with_inner_graphs
from pytest_fxgraph.document.spelling import split_at

# torch.export's `module()` checks by this module what the notes on ranges say.
_CHECKS_OF_INPUTS = "torch.export._unlift.GuardsFn"


def both_as_compared(expected: GraphDocument, obtained: GraphDocument) -> tuple[GraphDocument, GraphDocument]:
    """Return both documents as all levels but `exact` compare them.

    A tensor that one of them reads stays in the other, so that a call with another operand is one change. If the
    documents have other generated paths, these are left out, because a path may be another tensor's there.
    """
    made = _made_paths(expected)
    other = frozenset() if made == _made_paths(obtained) else made | _made_paths(obtained)
    read = _read_paths(expected), _read_paths(obtained)
    return as_compared(expected, read[1] - other), as_compared(obtained, read[0] - other)


def as_compared(document: GraphDocument, kept: frozenset[str] = frozenset()) -> GraphDocument:
    """Return a document as all levels but `exact` compare it. Tensors at the paths `kept` stay, read or not."""
    document = with_inner_graphs(without_kernels(document), lambda graph: as_compared(graph, kept))
    document = _without_unread(document, kept)
    if not any(node.meta for node in document.nodes):
        return document
    return replace(document, nodes=tuple([node._replace(meta=_in_order(node.meta)) for node in document.nodes]))


def _in_order(meta: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([(key, _with_sorted_keys(text)) for key, text in meta]))


def _with_sorted_keys(text: str) -> str:
    """Return a text whose dicts and sets have their items in alphabetical order."""
    if "{" not in text:
        return text
    opening = min(place for place in map(text.find, "([{") if place >= 0)
    before, inside, closing = text[: opening + 1], text[opening + 1 : -1], text[-1]
    if closing not in ")]}" or '"' in before:
        return text
    items = [_with_sorted_value(item.strip()) for item in split_at(inside, ",")]
    return f"{before}{', '.join(sorted(items) if closing == '}' else items)}{closing}"


def _with_sorted_value(item: str) -> str:
    key, *value = split_at(item, ":")
    return f"{key}: {_with_sorted_keys(value[0].strip())}" if len(value) == 1 else _with_sorted_keys(item)


def _read_paths(document: GraphDocument) -> frozenset[str]:
    """Return the paths of the tensors that nodes read, also in inner graphs."""
    read = _read_names(document)
    inner = [_read_paths(module.graph) for module in document.modules if module.graph is not None]
    own = {node.target for node in document.nodes if node.op == "get_attr" and node.name in read}
    return frozenset(own).union(*inner)


def _made_paths(document: GraphDocument) -> frozenset[str]:
    """Return the paths of tensors with generated names, also in inner graphs."""
    records = (record for graph in graphs_of(document) for record in graph.state)
    return frozenset(record.path for record in records if record.name_from is not None)


def _read_names(document: GraphDocument) -> set[str]:
    checks = _checks_of_inputs(document)
    nodes = [node for node in document.nodes if node.op != "call_module" or node.target not in checks]
    return {name for node in nodes for text in (*texts_of(node), *node.effects) for name in references(text)}


def _checks_of_inputs(document: GraphDocument) -> set[str]:
    return {module.path for module in document.modules if module.kind == _CHECKS_OF_INPUTS}


def _without_unread(document: GraphDocument, kept: frozenset[str]) -> GraphDocument:
    checks, read = _checks_of_inputs(document), _read_names(document)
    own = {node.target for node in document.nodes if node.op == "get_attr" and node.name in read}
    tensors = {record.path for record in document.state} - (kept - own)
    dropped = [
        (node.op == "call_module" and node.target in checks)
        or (node.op == "get_attr" and node.target in tensors and not (node.name in read or node.effects or node.meta))
        for node in document.nodes
    ]
    if not any(dropped):
        return document
    nodes = [node for node, is_dropped in zip(document.nodes, dropped, strict=True) if not is_dropped]
    modules = [module for module in document.modules if module.path not in checks]
    paths = {node.target for node in nodes if node.op == "get_attr"}
    called = tuple(f"{module.path}." for module in modules)
    state = [record for record in document.state if record.path in paths or record.path.startswith(called)]
    return replace(
        document, nodes=tuple(nodes), modules=tuple(modules), state=tuple(_shared_among(state, document.state))
    )


def _shared_among(kept: Iterable[StateRecord], state: Iterable[StateRecord]) -> Iterator[StateRecord]:
    """Let tensors share with the first kept one, where the first of the whole document is not kept."""
    kept, by_path = list(kept), {record.path: record for record in state}
    paths = {record.path for record in kept}
    firsts: dict[str, str] = {}
    for record in kept:
        lost = record.same_as
        if lost is None or lost in paths:
            yield record
        elif firsts.setdefault(lost, record.path) == record.path:
            yield record._replace(same_as=None, content=by_path[lost].content, storage=by_path[lost].storage)
        else:
            yield record._replace(same_as=firsts[lost])
