"""A piece of work whose CPU time is measured, and measuring several in turns."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_SHORTEST = 0.01  # seconds; shorter work is done several times in one measurement


def nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Task:
    """`run` gets what `prepare` returned; only `run` is measured."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = nothing


def measure_in_turns(tasks: Sequence[Task], rounds: int) -> list[float]:
    """Return the median CPU seconds of each task; see `rounds_in_turns`."""
    return [statistics.median(times) for times in rounds_in_turns(tasks, rounds)]


def rounds_in_turns(tasks: Sequence[Task], rounds: int) -> list[list[float]]:
    """Return the CPU seconds of each task in each round, the garbage collector as users have it.

    The order is drawn anew for each round: in one order, the first task of each round would find colder caches.
    """
    repeats = [_repeats(task) for task in tasks]
    taken: list[list[float]] = [[] for _ in tasks]
    drawn = random.Random(0)
    for _ in range(rounds):
        for place in drawn.sample(range(len(tasks)), len(tasks)):
            taken[place].append(seconds_of(tasks[place], repeats[place]))
    return taken


def seconds_of(task: Task, count: int) -> float:
    """Run a task `count` times, each prepared anew, and return the CPU seconds of one."""
    warm_up = 1 if count > 1 else 0  # long work does not notice caches that the collector left cold
    prepared = [task.prepare() for _ in range(count + warm_up)]
    gc.collect()  # what earlier work left behind is not this task's to collect
    if warm_up:
        task.run(prepared.pop())
    start = time.process_time()
    for item in prepared:
        task.run(item)
    return (time.process_time() - start) / count


def _repeats(task: Task) -> int:
    seconds_of(task, 1)  # imports and caches
    once = seconds_of(task, 1)
    return 1 if once >= _SHORTEST else min(200, int(_SHORTEST / max(once, 1e-6)) + 1)
