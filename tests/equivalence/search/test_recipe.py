"""A recipe makes the inputs that it says, in the structure of the user's."""

from __future__ import annotations

import torch

from fixtures.searched_graphs import space_around
from pytest_fxgraph.equivalence.search.recipe import context_of


def test_the_structure_of_the_arguments_stays():
    x = torch.rand(2, 3)
    space = space_around([x, {"again": x}], "text", kwargs={"mask": torch.ones(2, dtype=torch.bool)})

    made = space.make(space.example())

    first, again = made.args[0][0], made.args[0][1]["again"]
    assert first is again
    assert first is not x
    assert made.args[1] == "text"
    assert made.kwargs["mask"].dtype is torch.bool


def test_equal_recipes_make_equal_inputs_and_another_seed_makes_others():
    space = space_around(torch.rand(2, 3))
    recipe = space.example(seed=4)

    made, again, other = (space.make(each).args[0] for each in (recipe, recipe, recipe._replace(seed=5)))

    assert torch.equal(made, again)
    assert not torch.equal(made, other)


def test_sizes_kinds_and_layouts_are_those_of_the_recipe():
    space = space_around(torch.rand(2, 3))

    made = space.make(
        space.example()._replace(sizes=(5, 4), fills=((1, 1, 1, 1, 1, 1, 1),), layouts=("reversed",))
    ).args[0]

    assert made.shape == (5, 4)
    assert made.stride() == (1, 5)
    assert bool((made == 1).all())


def test_an_input_that_requires_grad_does_so_in_each_recipe():
    space = space_around(torch.rand(2, 3, requires_grad=True))

    made = space.make(space.example()).args[0]

    assert made.requires_grad
    assert made.is_leaf


def test_contexts_stand_around_the_calls():
    recipe = space_around(torch.rand(2)).example()

    with context_of(recipe._replace(context="no_grad"), "cpu"):
        assert not torch.is_grad_enabled()
    with context_of(recipe._replace(context="autocast"), "cpu"):
        assert torch.is_autocast_enabled("cpu")
    with context_of(recipe, "cpu"):
        assert torch.is_grad_enabled()
