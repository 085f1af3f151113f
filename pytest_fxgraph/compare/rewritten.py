"""Documents with other texts: one change to all texts of a node, or to all graphs inside a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_fxgraph.document.model import GraphDocument, NodeRecord

Pairs = tuple[tuple[str, str], ...]


def with_texts(node: NodeRecord, change: Callable[[str], str]) -> NodeRecord:
    """Return a node whose arguments, keyword arguments and metadata went through a function."""
    return node._replace(
        args=tuple(map(change, node.args)), kwargs=_changed(node.kwargs, change), meta=_changed(node.meta, change)
    )


def texts_of(node: NodeRecord) -> list[str]:
    """List a node's value, if it is known, its arguments and its keyword arguments."""
    return [text for text in (node.value, *node.args, *dict(node.kwargs).values()) if text is not None]


def _changed(pairs: Sequence[tuple[str, str]], change: Callable[[str], str]) -> Pairs:
    return tuple([(key, change(text)) for key, text in pairs])


def with_inner_graphs(document: GraphDocument, change: Callable[[GraphDocument], GraphDocument]) -> GraphDocument:
    """Return a document whose inner graphs, one level down, went through a function."""
    if all(module.graph is None for module in document.modules):
        return document
    modules = [
        module if module.graph is None else module._replace(graph=change(module.graph)) for module in document.modules
    ]
    return replace(document, modules=tuple(modules))
