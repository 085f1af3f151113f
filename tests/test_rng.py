"""The state of all random generators is read, compared and put back."""

from __future__ import annotations

import contextlib
import random

import numpy
import pytest
import torch

from pytest_fxgraph.rng import RngState, generators_kept, seed_all


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: torch.rand(1).item(), "torch's CPU generator"),
        (random.random, "Python's random"),
        (lambda: float(numpy.random.rand()), "numpy.random"),
    ],
)
def test_a_draw_is_noticed_and_undone(draw, name):
    before = RngState.now()
    first = draw()

    differing = before.differences(RngState.now())
    before.restore()

    assert differing == (name,)
    assert draw() == first
    before.restore()
    assert before.differences(RngState.now()) == ()


def test_seeding_makes_all_generators_draw_alike():
    before = RngState.now()
    drawn = []
    for _ in range(2):
        seed_all(3)
        drawn.append((torch.rand(1).item(), random.random(), float(numpy.random.rand())))
    before.restore()

    assert drawn[0] == drawn[1]


def test_generators_are_restored_after_an_error_too():
    before = RngState.now()

    with contextlib.suppress(ValueError), generators_kept():
        torch.rand(1)
        random.random()
        raise ValueError

    assert before.differences(RngState.now()) == ()
