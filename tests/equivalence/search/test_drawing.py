"""hypothesis draws recipes of every sort from the seed alone, and shrinks the recipe that it found."""

from __future__ import annotations

import pytest
import torch

from fixtures.searched_graphs import space_around
from pytest_fxgraph.equivalence.search.drawing import SearchStopped, minimal, smaller_recipes, smallest
from pytest_fxgraph.equivalence.search.values import EITHER, INDEX_BITS


def drawn(space, seed: int) -> list:
    """List the recipes that a search of 90 tries draws."""
    found = []

    def note(recipe) -> bool:
        found.append(recipe)
        return False

    assert smallest(space, note, seed, 90) is None
    return found


@pytest.mark.slow
def test_a_seed_draws_the_same_each_time_and_another_seed_others():
    space = space_around(torch.rand(4, 3), torch.rand(4, 3))

    assert drawn(space, 1) == drawn(space, 1)
    assert drawn(space, 1) != drawn(space, 2)


@pytest.mark.slow
def test_each_sort_of_recipe_is_drawn():
    found = drawn(space_around(torch.rand(4, 3), 2.0), 0)

    assert sum(max(recipe.sizes) > 100 for recipe in found) > 10
    assert any(1 in recipe.sizes for recipe in found)
    assert len({recipe.layouts for recipe in found}) >= 6
    assert {"", "no_grad", "autocast"} == {recipe.context for recipe in found}
    assert any(recipe.second_call for recipe in found)
    assert {"range", "normal", "wide", "huge", "tiny"} <= {recipe.fills[0] for recipe in found if recipe.is_random}
    assert len({recipe.fills[0][0] for recipe in found if not recipe.is_random}) >= 8


@pytest.mark.slow
def test_one_dimension_at_most_is_large_and_for_random_values_alone():
    for recipe in drawn(space_around(torch.rand(4, 3)), 0):
        larges = [size for size in recipe.sizes if size > 100]
        assert len(larges) <= (1 if recipe.is_random else 0)


def test_the_simplest_recipe_that_is_wanted_comes_back():
    space = space_around(torch.rand(8, 6))

    found = smallest(space, lambda recipe: recipe.sizes[0] % 2 == 1 and recipe.sizes[1] > 2, 0, 90)

    assert found is not None
    assert (found.sizes, found.layouts, found.context, found.second_call) == ((1, 3), ("example",), "", False)
    assert found.fills == ((0,) * 7,)


def test_a_search_that_is_stopped_draws_no_more():
    space, asked = space_around(torch.rand(4, 3)), []

    def stop_at_the_fifth(recipe) -> bool:
        asked.append(recipe)
        if len(asked) >= 5:
            raise SearchStopped
        return False

    assert smallest(space, stop_at_the_fifth, 0, 1000) is None
    assert len(asked) == 5


def test_a_search_that_is_stopped_while_it_shrinks_gives_its_find():
    space, asked = space_around(torch.rand(4, 3)), []

    def wanted_once(recipe) -> bool:
        asked.append(recipe)
        if len(asked) > 1:
            raise SearchStopped
        return True

    assert smallest(space, wanted_once, 0, 1000) == asked[0]
    assert len(asked) == 3  # the repetition of the find, and one smaller recipe


@pytest.mark.slow
def test_a_number_in_a_pattern_shrinks_on_its_own():
    space = space_around(torch.rand(2, 3))

    found = smallest(
        space, lambda recipe: bool((space.make(recipe).args[0] == -1).any()) and recipe.sizes == (2, 3), 3, 500
    )

    assert found is not None
    assert sorted(space.make(found).args[0].flatten().tolist()) == [-1, 0, 0, 0, 0, 0]


@pytest.mark.slow
def test_one_random_element_is_all_that_is_left_of_thousands():
    space = space_around(torch.rand(4, 3, generator=torch.Generator().manual_seed(0)))

    def is_wanted(recipe) -> bool:
        x = space.make(recipe).args[0]
        return bool(((x > 0.5) & (x < 0.501)).any())

    found = smallest(space, is_wanted, 0, 200)

    assert found is not None
    assert found.is_random
    assert [0.5 < value < 0.501 for value in space.make(found).args[0].flatten().tolist()] == [True]


@pytest.mark.slow
def test_each_of_several_tensors_shrinks():
    space = space_around(torch.rand(4, 3), torch.tensor([5, 9, 4, 7]))

    def is_wanted(recipe) -> bool:
        x, y = space.make(recipe).args
        return bool((x > 0).any() and y.any())

    found = smallest(space, is_wanted, 0, 90)

    assert found is not None
    assert [each.tolist() for each in space.make(found).args] == [[[1.0]], [1]]


def test_random_values_shrink_to_the_elements_that_are_needed():
    space = space_around(torch.rand(2, 3, generator=torch.Generator().manual_seed(0)), torch.ones(1, 1))
    found = space.example()._replace(kept=(EITHER,) * INDEX_BITS)
    *_, of_random_values = smaller_recipes(space, found)

    shrunk = minimal(of_random_values, lambda recipe: bool((space.make(recipe).args[0] > 0.2).any()), 0, 5)

    assert shrunk is not None
    assert shrunk.fills == found.fills
    assert shrunk.sizes[:2] == (1, 1)
    assert set(shrunk.kept) <= {0, 1}


def test_patterns_alone_have_no_random_values_to_shrink():
    space = space_around(torch.rand(2, 3))
    recipe = space.example()

    assert len([*smaller_recipes(space, recipe)]) == 3
    assert len([*smaller_recipes(space, recipe._replace(fills=((0,) * 7,)))]) == 2
