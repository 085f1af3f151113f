"""A recipe makes the inputs that it says, in the structure of the user's."""

from __future__ import annotations

import pytest
import torch

from fixtures.searched_graphs import space_around
from pytest_fxgraph.equivalence.search.recipe import LAYOUTS, context_of, layouts_for, other_dtypes, place


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


VALUES = torch.arange(120.0).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "expanded"])
def test_the_values_stay_as_they_are(layout):
    assert torch.equal(place(VALUES, layout, VALUES), VALUES)


@pytest.mark.parametrize(
    ("layout", "strides"),
    [
        ("contiguous", (60, 20, 5, 1)),
        ("reversed", (1, 2, 6, 24)),
        ("transposed", (60, 20, 1, 4)),
        ("channels_last", (60, 1, 15, 3)),
        ("sliced", (120, 40, 10, 2)),
        ("offset", (60, 20, 5, 1)),
        ("expanded", (0, 20, 5, 1)),
    ],
)
def test_the_strides_are_those_of_the_layout(layout, strides):
    made = place(VALUES, layout, VALUES)

    assert made.stride() == strides
    assert made.storage_offset() == (layout == "offset")


def test_an_example_that_is_channels_last_gives_its_order_of_dimensions():
    example = torch.zeros(7, 3, 2, 2).contiguous(memory_format=torch.channels_last)

    assert place(VALUES, "example", example).is_contiguous(memory_format=torch.channels_last)


def test_what_repeats_elements_repeats_the_first():
    assert torch.equal(place(VALUES, "expanded", VALUES)[1], VALUES[0])


@pytest.mark.parametrize(("dims", "count"), [(0, 1), (1, 5), (2, 7), (4, 8)])
def test_only_what_the_number_of_dimensions_allows_is_offered(dims, count):
    assert len(layouts_for(dims)) == count


@pytest.mark.parametrize(
    ("dtype", "others"),
    [
        (torch.float32, [torch.float64, torch.bfloat16]),
        (torch.float16, [torch.float32, torch.float64, torch.bfloat16]),
        (torch.bool, [torch.int64, torch.int32]),
        (torch.complex64, []),
    ],
)
def test_other_dtypes_are_of_the_same_kind(dtype, others):
    assert other_dtypes(dtype) == others


def test_the_example_draws_values_between_the_ends_and_changes_nothing_else():
    space = space_around(torch.rand(2, 3), torch.ones(2, dtype=torch.complex64), 3)
    recipe = space.example(seed=4)

    assert recipe.fills == ("range", "normal")
    assert recipe.layouts == ("example", "example")
    assert (recipe.seed, recipe.context, recipe.second_call, recipe.kept) == (4, "", False, ())
    assert space.example().seed == 0
    assert recipe.is_random
    pattern = (0,) * 7
    assert not recipe._replace(fills=(pattern, pattern)).is_random
    assert recipe._replace(fills=(pattern, "normal")).is_random


def test_one_extreme_tensor_makes_an_extreme_recipe():
    space = space_around(torch.rand(2, 3), torch.rand(2))
    recipe = space.example()

    assert not space.is_extreme(recipe)
    assert space.is_extreme(recipe._replace(fills=("range", "huge")))
