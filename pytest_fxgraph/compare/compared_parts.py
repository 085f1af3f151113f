"""A document as all levels but `exact` compare it: no unread tensors, no checks by torch.export, ordered metadata."""

from __future__ import annotations

from dataclasses import replace

from pytest_fxgraph.compare.rewritten import Pairs, texts_of, with_inner_graphs
from pytest_fxgraph.document.literals import references
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.document.spelling import split_at

# torch.export's `module()` checks by this module what the notes on ranges say.
_CHECKS_OF_INPUTS = "torch.export._unlift.GuardsFn"


def as_compared(document: GraphDocument) -> GraphDocument:
    """Return a document as all levels but `exact` compare it."""
    document = without_unread(with_inner_graphs(document, as_compared))
    if not any(node.meta for node in document.nodes):
        return document
    return replace(document, nodes=tuple([node._replace(meta=_in_order(node.meta)) for node in document.nodes]))


def _in_order(meta: Pairs) -> Pairs:
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


def without_unread(document: GraphDocument) -> GraphDocument:
    """Return a document without tensors that no node reads, and without torch.export's own checks of inputs."""
    checks = {module.path for module in document.modules if module.kind == _CHECKS_OF_INPUTS}
    nodes = [node for node in document.nodes if node.op != "call_module" or node.target not in checks]
    read = {name for node in nodes for text in (*texts_of(node), *node.effects) for name in references(text)}
    tensors = {record.path for record in document.state}
    nodes = [
        node
        for node in nodes
        if node.op != "get_attr" or node.name in read or node.effects or node.meta or node.target not in tensors
    ]
    if len(nodes) == len(document.nodes):
        return document
    modules = [module for module in document.modules if module.path not in checks]
    kept = {node.target for node in nodes if node.op == "get_attr"}
    kept |= {record.same_as for record in document.state if record.path in kept and record.same_as}
    called = tuple(f"{module.path}." for module in modules)
    state = [record for record in document.state if record.path in kept or record.path.startswith(called)]
    return replace(document, nodes=tuple(nodes), modules=tuple(modules), state=tuple(state))
