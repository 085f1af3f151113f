"""Edits in words: the places folded, the most telling edit first, the rest counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.edits import difference_of, edit
from pytest_fxgraph.compare.difference import Change, Edit, Site
from pytest_fxgraph.report.edit_text import describe_edit, edits_headline, place_of_edit

LONGEST = 119


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([f"blocks.{number}" for number in range(12)], "F.gelu -> nn.GELU at 12 places: blocks.0-11"),
        ([f"blocks.{n}.mlp" for n in (0, 1, 2, 5)], "F.gelu -> nn.GELU at 4 places: blocks.0-2.mlp, blocks.5.mlp"),
        (["blocks.10", "blocks.11"], "F.gelu -> nn.GELU at 2 places: blocks.10, blocks.11"),
        (["head"], "F.gelu -> nn.GELU at head"),
        ([""], "F.gelu -> nn.GELU"),
        (["", ""], "F.gelu -> nn.GELU at 2 places"),
        (["mlp", "mlp"], "F.gelu -> nn.GELU at 2 places: mlp"),
    ],
)
def test_an_edit_is_told_with_its_places_folded(places, words):
    assert describe_edit(edit("F.gelu -> nn.GELU", places)) == words


def test_a_place_that_the_text_names_is_not_told_twice():
    assert describe_edit(edit("module renamed fc -> classifier", ["classifier"])) == "module renamed fc -> classifier"


@pytest.mark.parametrize(
    ("texts", "rest", "omitted", "words"),
    [
        (["one"], 0, 0, "one"),
        (["one"], 2, 0, "one, and 2 more"),
        (["one", "two"], 0, 0, "one, and 1 more edit"),
        (["one", "two", "three"], 0, 0, "one, and 2 more edits"),
        (["one", "two", "three"], 1, 4, "one, and 2 more edits and 5 other changes"),
    ],
)
def test_the_headline_names_the_first_edit_and_counts_the_others(texts, rest, omitted, words):
    difference = difference_of([edit(text) for text in texts], rest=rest, omitted=omitted)

    assert edits_headline(difference, LONGEST) == words


def test_a_long_edit_leaves_room_for_the_count():
    line = edits_headline(difference_of([edit("x" * 500), edit("two")]), LONGEST)

    assert len(line) == LONGEST
    assert line.endswith(", and 1 more edit")


def test_the_place_of_an_edit_is_the_first_one_with_a_source():
    assert place_of_edit(edit("one", sources=[None, "model.py:3: x = f(x)"])) == "in blocks.1; model.py:3: x = f(x)"
    assert place_of_edit(edit("one", sources=[])) == ""


def test_a_change_everywhere_has_no_place():
    everywhere = Edit("throughout", "batch 2 -> 4 everywhere", (Site("graph_0"),), ())

    assert describe_edit(everywhere) == "batch 2 -> 4 everywhere"
    assert describe_edit(replace(everywhere, kind="argument")) == "batch 2 -> 4 everywhere at graph_0"


def test_a_line_is_as_long_as_it_may_be_with_its_places():
    made = edit("F.gelu -> nn.GELU", ["a", "b"])
    whole = "F.gelu -> nn.GELU at 2 places: a, b"

    assert describe_edit(made, len(whole)) == whole
    assert describe_edit(made, len(whole) - 1) == "F.gelu -> nn.GELU at 2 places"


@pytest.mark.parametrize(
    ("places", "key", "words"),
    [
        (["enc.0", "enc.1", "dec.4"], (), "2 blocks added at 2 places: enc, dec"),
        (["enc.0", "enc.1"], (), "2 blocks added at enc"),
        (["0", "1"], (), "2 blocks added"),
        (["enc.0", "enc.1"], ("x", "runs"), "2 blocks added at 2 places: enc.0, enc.1"),
        (["enc.0", "enc.1"], ("runs", "x", "runs"), "2 blocks added at enc"),
    ],
)
def test_edits_of_blocks_name_the_modules_around_the_blocks(places, key, words):
    assert describe_edit(Edit("block", "2 blocks added", tuple(map(Site, places)), (), key)) == words


@pytest.mark.parametrize(
    ("kind", "sites", "place"),
    [
        ("replaced", (Site("mlp", ("a",), ("act_1",)),), "%act_1: in mlp"),
        ("inserted", (Site("mlp", (), ("act_1",)),), "in mlp"),
        ("replaced", (Site("mlp", ("a",), ("act_1",)), Site("fc", ("b",), ("act_2",))), "in mlp"),
        ("replaced", (Site("mlp", ("a",), ("act_1", "act_2")),), "in mlp"),
        ("replaced", (Site("mlp", ("a",), ()),), "in mlp"),
        ("replaced", (Site("mlp", ("a",), ("relu",)),), "in mlp"),  # the text has this name
        ("replaced", (Site("mlp.act", ("a",), ("mlp_act",)),), "in mlp"),  # so has the place
        ("replaced", (), "in mlp"),
    ],
)
def test_the_node_of_an_edit_is_named_where_it_is_one_and_says_something_new(kind, sites, place):
    change = Change("operators", "changed", "node", "act", scope="mlp")

    assert place_of_edit(Edit(kind, "relu -> gelu", sites, (change,))) == place
    assert place_of_edit(Edit(kind, "relu -> gelu", sites, ())) == place.partition("in mlp")[0].removesuffix(": ")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (("block", "runs", "more"), "text at 2 places: a.b.0, a.b.1"),
        (("block", "other", "runs"), "text at a.b"),
        (("block",), "text at a.b"),
    ],
)
def test_an_edit_of_blocks_is_at_the_module_around_them_unless_they_run_otherwise(key, words):
    assert describe_edit(Edit("block", "text", (Site("a.b.0"), Site("a.b.1")), (), key)) == words
