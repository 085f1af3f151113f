"""State behind a pair of functions, one to read and one to write: generators, arrays, settings of torch."""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from fxcore.state.changes import Change


class Reading(NamedTuple):
    """One value of the state, and the functions that read and write the value."""

    path: str
    role: str  # "generator", "array", "setting"
    owner: Any  # identifies the value, and lives as long as the reading
    read: Callable[[], Any]
    write: Callable[[Any], Any]


class Readings:
    """Values read at one time. A value that is known already keeps its first state."""

    def __init__(self, readings: Iterable[Reading] = ()) -> None:
        self._saved: dict[int, tuple[Reading, Any]] = {}
        self.add(readings)

    def add(self, readings: Iterable[Reading]) -> None:
        """Read more values."""
        for reading in readings:
            if id(reading.owner) not in self._saved:
                self._saved[id(reading.owner)] = reading, reading.read()

    def changes(self, *, but: Callable[[Reading], bool] = lambda reading: False) -> list[Change]:
        """Return a change for each value that differs now, except for the readings that `but` picks."""
        saved = [each for each in self._saved.values() if not but(each[0])]
        now = [reading.read() for reading, _ in saved]
        return [
            Change(reading.path, "setting" if reading.role == "setting" else "values", before, after, reading.role)
            for (reading, before), after in zip(saved, now, strict=True)
            if before != after
        ]

    def states(self) -> dict[str, Any]:
        """Return the saved values by path."""
        return {reading.path: value for reading, value in self._saved.values()}

    def restore(self) -> None:
        """Write back each value that differs now. A generator takes longer to compare than to write."""
        for reading, value in self._saved.values():
            if reading.role == "generator" or reading.read() != value:
                reading.write(value)


class Content:
    """The state of a generator or array. Two states are equal if their bytes are equal."""

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and _comparable(self.raw) == _comparable(other.raw)

    __hash__ = None  # type: ignore[assignment]  # the content may be large, and no caller looks it up


def _comparable(raw: Any) -> Any:
    """Return a value that compares as a whole: arrays and tensors become bytes."""
    if isinstance(raw, torch.Tensor):
        # Not torch.equal(): a mode that the user has entered would see the call.
        return ctypes.string_at(raw.data_ptr(), raw.nbytes)
    if isinstance(raw, dict):
        return {key: _comparable(value) for key, value in raw.items()}
    return (raw.shape, raw.strides, raw.dtype, raw.tobytes()) if hasattr(raw, "tobytes") else raw


_GENERATORS = frozenset((torch.Generator, random.Random))


def kinds_of_generators() -> frozenset[type]:
    """Return the classes of random generators. Before an import of numpy.random no object can be one of numpy's."""
    numpy_random: Any = sys.modules.get("numpy.random")
    return _GENERATORS if numpy_random is None else _GENERATORS | {numpy_random.Generator, numpy_random.RandomState}


def reading_of_generator(path: str, generator: Any) -> Reading:
    """Return the reading of the state of a random generator of torch, Python or numpy."""
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    if isinstance(generator, torch.Generator):
        read, write = generator.get_state, generator.set_state
    elif isinstance(generator, random.Random):
        read, write = generator.getstate, generator.setstate
    elif hasattr(generator, "bit_generator"):
        bits = generator.bit_generator
        read, write = (lambda: bits.state), (lambda state: setattr(bits, "state", state))
    else:  # RandomState keeps every second normal number outside of its bit generator
        read, write = (lambda: generator.get_state(legacy=False)), generator.set_state
    return Reading(path, "generator", generator, lambda: Content(read()), lambda state: write(state.raw))


def global_generators() -> Iterator[Reading]:
    """Yield the readings of the generators that every function may draw from."""
    return itertools.starmap(reading_of_generator, _global_generators())


def _global_generators() -> Iterator[tuple[str, Any]]:
    """Yield the generators that every function may draw from: torch's on each device, Python's, numpy's.

    Generators of CUDA are left out while CUDA is not in use, because a question would start CUDA.
    """
    yield "torch's CPU generator", torch.default_generator
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
        for index, generator in enumerate(torch.cuda.default_generators):
            yield f"the generator of cuda:{index}", generator
    yield "Python's random", random._inst
    if "numpy" in sys.modules:  # numpy imports and seeds numpy.random at the first use
        yield "numpy.random", importlib.import_module("numpy.random").get_state.__self__


def marks_of_generators() -> list[Any]:
    """Return a value for each generator that every function may draw from. A draw changes the value.

    numpy copies its state number by number: to read all states before and after a trace took 170 us of the 1.1 ms of a
    small golden test, and the marks take 10 us.
    """
    return [_mark(generator) for _, generator in _global_generators()]


def _mark(generator: Any) -> Any:
    bits = getattr(generator, "_bit_generator", None)
    kinds: Any = type(generator), type(bits)  # mypy takes classes for unhashable
    return _memory(generator, bits) if _shows_draws(*kinds) else reading_of_generator("", generator).read()


def _memory(generator: Any, bits: Any) -> list[Any]:
    """Return the memory of a generator of Python or numpy, and the normal number that Python keeps for the next call.

    The beginning of each object is left out: the count of its references changes without a draw.
    """
    start, parts = object.__basicsize__, (generator,) if bits is None else (generator, bits)
    contents = [ctypes.string_at(id(part) + start, type(part).__basicsize__ - start) for part in parts]
    return [*contents, getattr(generator, "gauss_next", None)]


@functools.lru_cache(maxsize=8)
def _shows_draws(kind: Any, kind_of_bits: Any) -> bool:
    """Draw from a new generator, and return whether its memory shows it: neither numpy nor Python promises that."""
    is_of_numpy = kind_of_bits.__module__.startswith("numpy.random.")
    if kind is not random.Random and not is_of_numpy:
        return False
    bits = kind_of_bits() if is_of_numpy else None
    generator = kind(bits)
    draw = generator.normal if is_of_numpy else generator.gauss
    first, second, third = [(draw(0, 1), _memory(generator, bits))[1] for _ in range(3)]
    return first != second != third  # the second number was made with the first one


def seed_generators(seed: int) -> None:
    """Seed all global generators, so that two runs draw the same numbers."""
    # Not torch.manual_seed(): it prepares a message with a stack trace for each device that is not there.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's own
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % 2**32)


def is_array(value: object) -> bool:
    """Return whether a value is an array of numpy. Without an import of numpy no object can be an array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def reading_of_array(path: str, array: Any) -> Reading:
    """Return the reading of the values of an array of numpy."""

    def write(content: Content) -> None:
        before = content.raw
        try:
            if array.dtype != before.dtype:
                array.dtype = before.dtype
            if array.shape != before.shape:
                array.resize(before.shape, refcheck=False)
            array[...] = before
        except (ValueError, TypeError, AttributeError):
            pass  # read-only, or a view: the change was not made through this object alone

    return Reading(path, "array", array, lambda: Content(array.copy("K")), write)
