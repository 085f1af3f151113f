"""Values lie in memory as a layout says, and are the same where nothing is repeated."""

from __future__ import annotations

import pytest
import torch

from pytest_fxgraph.equivalence.search.layouts import LAYOUTS, layouts_for, place

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
