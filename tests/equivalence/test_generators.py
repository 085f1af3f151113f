"""Generators that belong to a model stand alike before each run, and where they stood after the check."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import fxcore
from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.functions import assert_equivalent


class Drawing(nn.Module):
    """Adds numbers from a generator of its own."""

    def __init__(self, generator: Any, draw: Any) -> None:
        super().__init__()
        self.generator, self.draw = generator, draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.draw(self.generator)


DRAWS = {
    "torch": lambda: (torch.Generator().manual_seed(3), lambda generator: torch.rand(2, generator=generator)),
    "python": lambda: (random.Random(3), lambda generator: generator.random()),
    "numpy": lambda: (numpy.random.default_rng(3), lambda generator: float(generator.random())),
    "old numpy": lambda: (numpy.random.RandomState(3), lambda generator: float(generator.rand())),
}


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_both_runs_draw_the_same_numbers_and_nothing_is_left_behind(made):
    model, twin = Drawing(*made()), Drawing(*made())

    assert_equivalent(model, model, torch.ones(2))

    assert torch.equal(model(torch.ones(2)), twin(torch.ones(2)))


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_a_graph_that_froze_a_draw_is_told_from_the_model(made):
    with pytest.raises(AssertionError, match="the generator generator drew otherwise in the graph than in eager"):
        FxEquivalence()(Drawing(*made()), torch.ones(2))


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_only_a_generator_that_was_used_has_changed_until_it_is_restored(made):
    model, other = Drawing(*made()), Drawing(*made())
    both = nn.ModuleDict({"used": model, "unused": other})
    snapshot = Snapshot(both)
    assert snapshot.changes() == []

    model(torch.ones(2))
    assert [(change.path, change.what) for change in snapshot.changes()] == [("used.generator", "values")]

    snapshot.restore()
    assert snapshot.changes() == []


def test_a_draw_that_the_graph_repeats_agrees():
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.empty_like(x).uniform_(generator=self.generator)

    model = Noisy()

    FxEquivalence()(model, torch.ones(2), samples=2, modes=("eval", "train"))

    assert torch.equal(model.generator.get_state(), torch.Generator().manual_seed(3).get_state())


def test_a_generator_that_only_the_graph_names_is_put_back():
    generator = torch.Generator().manual_seed(3)

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty_like(x).uniform_(generator=generator)

    assert_equivalent(noisy, fxcore.symbolic_trace(noisy), torch.ones(2))

    assert torch.equal(generator.get_state(), torch.Generator().manual_seed(3).get_state())
