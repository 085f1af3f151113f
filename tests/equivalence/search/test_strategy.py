"""The corners have one odd thing each; what hypothesis draws depends on the seed alone."""

from __future__ import annotations

from dataclasses import fields

import torch

from fixtures.searched_graphs import space_around
from pytest_fxgraph.equivalence.search.strategy import corners, minimal, recipes, simpler_recipes


def drawn(space, seed: int) -> list:
    """List what a search of 100 tries draws."""
    found = []

    def note(recipe) -> bool:
        found.append(recipe)
        return False

    assert minimal(recipes(space), note, seed, 100) is None
    return found


def test_most_corners_differ_from_the_example_in_one_thing():
    space = space_around(torch.rand(4, 3), torch.tensor([1, 2, 3]), 2.0)
    example = space.example(3)

    listed = corners(space, 3)

    odd = [[each.name for each in fields(recipe) if getattr(recipe, each.name) != getattr(example, each.name)]
           for recipe in listed]  # fmt: skip
    assert all(len(names) == 1 for names in odd)
    assert len(set(listed)) == len(listed)
    assert {name for names in odd for name in names} == {"sizes", "kinds", "layouts", "context", "second_call"}


def test_each_sort_of_corner_is_among_the_first_twelve():
    listed = corners(space_around(torch.rand(4, 3)), 0)[:12]

    assert any(1 in recipe.sizes for recipe in listed)
    assert {("negative",), ("zeros",)} <= {recipe.kinds for recipe in listed}
    assert {("reversed",), ("sliced",)} <= {recipe.layouts for recipe in listed}
    assert any(recipe.second_call for recipe in listed)


def test_a_seed_draws_the_same_each_time_and_another_seed_others():
    space = space_around(torch.rand(4, 3), torch.rand(4, 3))

    assert drawn(space, 1) == drawn(space, 1)
    assert drawn(space, 1) != drawn(space, 2)


def test_large_inputs_and_odd_ones_are_drawn():
    found = drawn(space_around(torch.rand(4, 3)), 0)

    assert sum(max(recipe.sizes) > 100 for recipe in found) > 20
    assert sum(recipe.layouts != ("example",) for recipe in found) > 10
    assert any(recipe.context for recipe in found)
    assert any(recipe.second_call for recipe in found)
    assert len({recipe.kinds for recipe in found}) > 10


def test_the_simplest_recipe_that_is_wanted_comes_back():
    space = space_around(torch.rand(8, 6))

    found = minimal(recipes(space), lambda recipe: recipe.sizes[0] % 2 == 1 and recipe.sizes[1] > 2, 0, 200)

    assert found is not None
    assert (found.sizes, found.layouts, found.context, found.second_call) == ((1, 3), ("example",), "", False)


def test_what_was_found_is_made_simpler_where_that_keeps_what_is_wanted():
    space = space_around(torch.rand(8, 6))
    odd = next(recipe for recipe in drawn(space, 0) if recipe.layouts == ("reversed",) and recipe.context)

    found = minimal(simpler_recipes(space, odd), lambda recipe: recipe.layouts == ("reversed",), 0, 60)

    assert found is not None
    assert (found.sizes, found.context) == ((1, 1), "")
    assert found.kinds == ("zeros",)
