"""Random graphs that go there and back: made node by node, and edited."""

from __future__ import annotations

import pytest
import torch.fx
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.edit_scripts import ACTIONS, edits
from fixtures.graph_identity import differences
from fixtures.random_graphs import Holder, built, graph_recipes
from fixtures.sight import seen
from fixtures.sizes import MANY, SOME
from fxcore import interop


def goes_there_and_back(graph) -> None:
    try:
        original = torch.fx.GraphModule(Holder(), graph)
    except (SyntaxError, NameError):  # NameError: a default of an input names a node
        return  # torch.fx cannot write this graph
    try:
        original.graph.lint()
    except (RuntimeError, ValueError):
        return  # an edit put nodes behind their readers
    ours = interop.from_torch(original)

    assert differences(original, ours) == []
    assert differences(original, interop.to_torch(ours)) == []
    assert differences(ours, interop.from_torch(interop.to_torch(ours))) == []


def edited(recipes, script):
    """Make a graph and apply the edits that it takes."""
    graph = built(recipes, torch.fx)
    graph.owning_module = Holder()
    for edit in script:
        nodes = list(graph.nodes)
        node, other = nodes[edit.node % len(nodes)], nodes[edit.other % len(nodes)]
        seen(lambda: ACTIONS[edit.action](graph, node, other, edit.word))  # noqa: B023  # called at once
    return graph


@settings(SOME, max_examples=20)
@given(recipes=graph_recipes())
def test_a_random_graph_goes_there_and_back(recipes):
    goes_there_and_back(built(recipes, torch.fx))


@pytest.mark.long
@settings(MANY, max_examples=500)
@given(recipes=graph_recipes(max_nodes=20), script=st.lists(edits(), max_size=15))
def test_thousands_of_edited_graphs_go_there_and_back(recipes, script):
    goes_there_and_back(edited(recipes, script))
