"""Chains of many nodes, and what can become of them."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn

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


class Block(nn.Module):
    """Seven nodes, of which two are layers; eight with an insertion."""

    def __init__(self, *, inserted: bool = False) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)
        self.inserted = inserted

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.linear(self.norm(x)))
        if self.inserted:
            y = torch.sigmoid(y)
        return torch.tanh(y * 0.5) + x - 1


def blocks(nodes: int, *, inserted: bool = False) -> nn.Module:
    """Return a model of blocks; one in the middle has a node more if asked."""
    count = nodes // 7
    return nn.Sequential(*[Block(inserted=inserted and place == count // 2) for place in range(count)])
