"""Inserting relabels few nodes, wherever it happens; counted, not timed."""

from __future__ import annotations

import operator
from itertools import pairwise

import fxcore
from fxcore.nodes import node_list


def spreads_of(monkeypatch, insertions):
    """Insert ever deeper between two nodes; return the graph and how often labels had to be spread anew."""
    spreads = []
    spread = node_list._spread
    monkeypatch.setattr(node_list, "_spread", lambda root, node: spreads.append(node) or spread(root, node))
    graph = fxcore.Graph()
    middle = low = graph.placeholder("x")
    high = graph.placeholder("y")
    for index in range(insertions):
        if index % 2:
            with graph.inserting_before(high):
                high = graph.call_function(operator.neg, (middle,))
        else:
            with graph.inserting_after(low):
                low = graph.call_function(operator.neg, (middle,))
    return graph, len(spreads)


def test_alternating_insertions_relabel_seldom(monkeypatch):
    graph, spreads = spreads_of(monkeypatch, 4_000)

    assert spreads < 4_000 / 4
    nodes = list(graph.nodes)
    assert all(first < second for first, second in pairwise(nodes))


def test_appending_never_relabels(monkeypatch):
    monkeypatch.setattr(node_list, "_spread", None)
    graph = fxcore.Graph()

    for index in range(1_000):
        graph.placeholder(f"x_{index}")

    assert len(graph.nodes) == 1_000
