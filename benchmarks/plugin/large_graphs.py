"""Chains of many nodes, and what can become of them."""

from __future__ import annotations

import operator
from typing import Any

import fxcore
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import GraphDocument


def chain(nodes: int, *, inserted: bool = False) -> Any:
    """Return a module that adds small numbers; with a node inserted at its front, all later names are other ones."""
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    if inserted:
        value = graph.call_function(operator.add, (value, 100))
    for index in range(nodes):
        value = graph.call_function(operator.add, (value, index % 7))
    graph.output(value)
    return fxcore.GraphModule({}, graph)


def another_chain(nodes: int) -> Any:
    """Return a module of as many nodes that has nothing in common with `chain`."""
    graph = fxcore.Graph()
    value = graph.placeholder("x")
    for index in range(nodes):
        called = (operator.mul, operator.sub, operator.truediv)[index % 3]
        value = graph.call_function(called, (value, index + 1000))
    graph.output(value)
    return fxcore.GraphModule({}, graph)


def documents_of(nodes: int) -> tuple[GraphDocument, GraphDocument]:
    """Return the documents of a chain, and of the chain with a node at its front."""
    return build_document(chain(nodes)), build_document(chain(nodes, inserted=True))
