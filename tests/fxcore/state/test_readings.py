"""The state of all random generators is read, compared and put back."""

from __future__ import annotations

import contextlib
import random

import numpy
import pytest
import torch

from fxcore.state.changes import Change
from fxcore.state.readings import (
    Content,
    Reading,
    Readings,
    _shows_draws,
    global_generators,
    is_array,
    kinds_of_generators,
    marks_of_generators,
    reading_of_array,
    reading_of_generator,
    seed_generators,
)
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


def flip_sign(array):
    array[0] = -array[0]


def take_other_dtype(array):
    array.dtype = numpy.int64


def grow(array):
    array.resize(5, refcheck=False)


def turn(array):
    array.shape = (3, 1)


@pytest.mark.parametrize("change", [flip_sign, take_other_dtype, grow, turn])
def test_an_array_gets_back_its_values_type_and_shape(change):
    array = numpy.array([0.0, 1.0, 2.0])
    reading = reading_of_array("a", array)
    before = Readings([reading])
    assert (reading.path, reading.role, before.changes()) == ("a", "array", [])

    change(array)
    assert [(each.path, each.what, each.role) for each in before.changes()] == [("a", "values", "array")]
    before.restore()

    assert before.changes() == []
    assert (array.tolist(), array.dtype, array.shape) == ([0.0, 1.0, 2.0], numpy.float64, (3,))
    assert not numpy.signbit(array[0])


def test_an_array_that_cannot_be_written_stays_as_it_is():
    array = numpy.zeros(2)
    before = Readings([reading_of_array("a", array)])

    array[0] = 1
    array.setflags(write=False)
    before.restore()

    assert array.tolist() == [1, 0]


def test_only_an_array_is_an_array():
    assert [is_array(value) for value in (numpy.zeros(1), numpy.float64(1), [1], torch.zeros(1))] == [True] + [
        False
    ] * 3


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (torch.Generator, lambda generator: torch.rand(1, generator=generator).item()),
        (lambda: random.Random(0), lambda generator: generator.gauss(0, 1)),
        (lambda: numpy.random.default_rng(0), lambda generator: generator.normal()),
        (lambda: numpy.random.RandomState(0), lambda generator: generator.normal()),
    ],
)
def test_a_generator_draws_again_what_it_drew(make, draw):
    generator = make()
    draw(generator)
    before = Readings([reading_of_generator("g", generator)])
    assert before.changes() == []

    drawn = [draw(generator), draw(generator)]
    assert [(change.path, change.role) for change in before.changes()] == [("g", "generator")]
    before.restore()

    assert [draw(generator), draw(generator)] == drawn


def test_a_value_that_is_read_again_keeps_its_first_state():
    owner, values = object(), [1]
    reading = Reading("a", "setting", owner, lambda: values[-1], values.append)
    readings = Readings([reading])
    values.append(2)

    readings.add([reading._replace(path="b")])

    assert readings.states() == {"a": 1}
    readings.restore()
    readings.restore()
    assert values == [1, 2, 1]


def test_contents_are_equal_if_their_bytes_and_forms_are():
    assert Content(torch.ones(2)) == Content(torch.ones(2))
    assert Content(torch.ones(2)) != Content(torch.zeros(2))
    assert Content({"a": numpy.zeros(2)}) == Content({"a": numpy.zeros(2)})
    assert Content(numpy.zeros((2, 1))) != Content(numpy.zeros((1, 2)))
    assert Content(numpy.zeros(2)) != Content(numpy.zeros(2, dtype=numpy.int64))
    assert Content(1) != 1


def test_a_draw_is_read_from_the_memory_of_generators_of_python_and_numpy():
    assert [type(mark) for mark in marks_of_generators()] == [Content, list, list]


def test_generators_of_devices_are_read_and_seeded_once_cuda_is_in_use(monkeypatch):
    seeds, generator = [], torch.Generator()
    assert [reading.path for reading in global_generators()] == [
        "torch's CPU generator",
        "Python's random",
        "numpy.random",
    ]
    seed_generators(1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "default_generators", (generator,))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)

    with globals_kept():
        seed_generators(7)

    assert seeds == [7]
    assert [(reading.path, reading.owner) for reading in global_generators()][1] == (
        "the generator of cuda:0",
        generator,
    )


def test_a_seed_of_more_than_32_bits_seeds_numpy_by_its_last_32():
    with globals_kept():
        seed_generators(2**32 + 5)
        drawn = numpy.random.rand()
        seed_generators(5)

        assert numpy.random.rand() == drawn


def test_a_seed_of_32_bits_seeds_numpy_by_all_of_them():
    with globals_kept():
        seed_generators(2**31 + 5)
        drawn = numpy.random.rand()
        numpy.random.seed(2**31 + 5)

        assert numpy.random.rand() == drawn


@pytest.mark.parametrize(
    ("written", "is_shown"),
    [((), False), ((1,), False), ((2,), False), ((3,), False), ((2, 3), True), ((1, 2, 3), True)],
)
def test_a_generator_shows_its_draws_if_each_of_three_changes_its_memory(written, is_shown):
    values = [object() for _ in range(4)]

    class Draws:
        __slots__ = ("count", "value")

        def __init__(self, bits):
            self.count, self.value = 0, values[0]

        def normal(self, mean, deviation):
            number, self.count = len(drawn), None
            drawn.append(number)
            if number + 1 in written:
                self.value = values[number + 1]

    class Bits:
        __slots__ = ()

    drawn = []
    Bits.__module__ = "numpy.random.own"

    assert _shows_draws.__wrapped__(Draws, Bits) is is_shown


def test_only_generators_of_python_and_numpy_may_show_their_draws():
    class Own(random.Random):
        pass

    found = [_shows_draws.__wrapped__(kind, type(None)) for kind in (random.Random, Own)]

    assert found == [True, False]
    for generator in (numpy.random.default_rng(), numpy.random.RandomState()):
        assert _shows_draws.__wrapped__(type(generator), type(generator._bit_generator))
