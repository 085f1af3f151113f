"""Random graphs, made node by node and edited step by step with both libraries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.edit_scripts import edits, sights_along
from fixtures.oracle import assert_same
from fixtures.random_graphs import Holder, built, graph_recipes
from fixtures.sizes import MANY, SOME

SCRIPTS = st.lists(edits(), min_size=1, max_size=10)


def prints_the_same(recipes) -> None:
    assert_same(lambda fx: built(recipes, fx))
    assert_same(lambda fx: compiled(fx.GraphModule(Holder(), built(recipes, fx))))


def compiled(module):
    """Let the generated code be compiled, which torch.fx does at once and fxcore when it is first asked for."""
    assert callable(module.forward)
    return module


def edits_alike(recipes, script) -> None:
    assert_same(lambda fx: list(sights_along(recipes, script, fx)))


@pytest.mark.slow
@SOME
@given(recipes=graph_recipes())
def test_both_libraries_print_the_same_graph(recipes):
    prints_the_same(recipes)


@SOME
@given(recipes=graph_recipes(max_nodes=5, writes=False), script=SCRIPTS)
def test_both_libraries_edit_a_graph_alike(recipes, script):
    edits_alike(recipes, script)


@pytest.mark.long
@MANY
@given(recipes=graph_recipes(max_nodes=20))
def test_thousands_of_graphs_are_printed_alike(recipes):
    prints_the_same(recipes)


@pytest.mark.long
@MANY
@given(recipes=graph_recipes(writes=False), script=st.lists(edits(), min_size=1, max_size=25))
def test_thousands_of_scripts_edit_alike(recipes, script):
    edits_alike(recipes, script)
