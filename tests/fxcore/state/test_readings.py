"""The state of all random generators is read, compared and put back."""

from __future__ import annotations

import contextlib
import random

import numpy
import pytest
import torch

from fxcore.state.changes import Change
from fxcore.state.readings import Reading, Readings, kinds_of_generators, marks_of_generators, seed_generators
from fxcore.state.snapshot import Snapshot, globals_kept


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (lambda: torch.rand(1).item(), "torch's CPU generator"),
        (random.random, "Python's random"),
        (lambda: float(numpy.random.rand()), "numpy.random"),
    ],
)
def test_a_draw_is_noticed_and_undone(draw, name):
    before = Snapshot.of_globals()
    first = draw()

    differing = [change.path for change in before.changes()]
    before.restore()

    assert differing == [name]
    assert draw() == first
    before.restore()
    assert before.changes() == []


@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(1), random.random, lambda: random.gauss(0, 1), numpy.random.rand, numpy.random.randn],
    ids=["torch", "python", "python-normal", "numpy", "numpy-normal"],
)
def test_each_draw_changes_a_mark(draw):
    with globals_kept(settings=False):
        for _ in range(4):  # every second normal number was made with the one before it
            before = marks_of_generators()
            assert marks_of_generators() == before

            draw()

            assert marks_of_generators() != before


def test_a_generator_of_another_class_is_marked_by_its_state(monkeypatch):
    class Counter(random.Random):
        def getstate(self):
            return self.count

        def random(self):
            self.count += 1
            return 0.5

    generator = Counter()
    generator.count = 0
    monkeypatch.setattr(random, "_inst", generator)
    before = marks_of_generators()

    generator.random()

    assert marks_of_generators() != before


def test_a_bit_generator_that_was_put_into_numpy_is_marked_too():
    generator = numpy.random.get_state.__self__
    own = numpy.random.get_bit_generator()
    try:
        numpy.random.set_bit_generator(numpy.random.PCG64(1))
        before = marks_of_generators()
        generator.rand()

        assert marks_of_generators() != before
    finally:
        numpy.random.set_bit_generator(own)


def test_seeding_makes_all_generators_draw_alike():
    before = Snapshot.of_globals()
    drawn = []
    for _ in range(2):
        seed_generators(3)
        drawn.append((torch.rand(1).item(), random.random(), float(numpy.random.rand())))
    before.restore()

    assert drawn[0] == drawn[1]


def test_generators_are_restored_after_an_error_too():
    before = Snapshot.of_globals()

    with contextlib.suppress(ValueError), globals_kept():
        torch.rand(1)
        random.random()
        raise ValueError

    assert before.changes() == []


def test_a_change_of_a_setting_is_told_from_a_draw_and_readings_may_be_left_out():
    values = {"seed": 1, "mode": "a"}

    def reading(name, role):
        return Reading(name, role, object(), lambda: values[name], lambda value: values.update({name: value}))

    before = Readings([reading("seed", "generator"), reading("mode", "setting")])
    values.update(seed=2, mode="b")

    assert before.changes() == [
        Change("seed", "values", 1, 2, "generator"),
        Change("mode", "setting", "a", "b", "setting"),
    ]
    assert [change.path for change in before.changes(but=lambda each: each.role == "setting")] == ["seed"]
    assert before.states() == {"seed": 1, "mode": "a"}
    before.restore()
    assert values == {"seed": 1, "mode": "a"}


def test_generators_of_numpy_are_generators():
    assert {type(numpy.random.default_rng()), numpy.random.RandomState, random.Random} <= kinds_of_generators()


def test_a_draw_from_a_generator_that_a_module_holds_is_noticed():
    module = torch.nn.Module()
    module.generator = numpy.random.default_rng(0)
    before = Snapshot(module)

    module.generator.random()

    assert [change.path for change in before.changes()] != []
