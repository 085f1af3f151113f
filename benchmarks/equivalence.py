"""What `fx_equivalence` costs beside the two forward runs that it consists of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import fxcore
from benchmarks.library import Library
from benchmarks.result import Table
from fixtures.catalog import CATALOG
from pytest_fxgraph.equivalence.fixture import FxEquivalence

# By the name in the zoo, or of a file and function of pytorchcv, and by batch.
SUBJECTS = (
    ("resnet18", 1),
    ("resnet18", 4),
    ("resnet50", 1),
    ("resnet50", 4),
    ("mobilenetv2", 1),
    ("mobilenetv2", 4),
    ("efficientnet_b0", 1),
    ("efficientnet_b0", 4),
)
TARGET = 1.2
COLUMNS = ("model, batch", "two runs, ms", "check, graph given", "check with tracing", "target", "reached")

_ROUNDS = 3  # for each that the command asks for: pages and caches make single measurements jump


def model_of(name: str) -> nn.Module:
    """Build a model with random weights."""
    if name in CATALOG:
        return CATALOG[name].build().eval()
    from pytorchcv.models import resnet

    torch.manual_seed(0)
    return getattr(resnet, name)().eval()  # type: ignore[no-any-return]


def overheads(libraries: tuple[Library, Library], rounds: int, say: Callable[[str], None]) -> list[Table]:
    """Measure the check on every subject, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    table = Table("fx_equivalence, CPU time over that of the two forward runs", COLUMNS)
    try:
        for name, batch in SUBJECTS:
            say(f"the check of {name}, batch {batch}")
            table.rows.append([f"{name}, {batch}", *_row(model_of(name), batch, rounds * _ROUNDS)])
    finally:
        torch.set_num_threads(threads)
    return [table]


def _row(model: nn.Module, batch: int, rounds: int) -> list[object]:
    image = torch.rand(batch, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    graph = fxcore.symbolic_trace(model)
    check = FxEquivalence()

    def two_runs() -> None:
        # As the check does it: what the first returned is gone before the second runs.
        model(image)
        graph(image)

    works: list[Callable[[], object]] = [
        two_runs,
        lambda: check(model, image, graph=graph),
        lambda: check(model, image),
    ]
    bare, given, traced = _medians(works, rounds)
    reached = "yes" if given <= TARGET * bare else "**no**"
    return [bare * 1e3, given / bare, traced / bare, TARGET, reached]


def _medians(works: list[Callable[[], object]], rounds: int) -> list[float]:
    """Give the median CPU seconds of each, measured in turns, each as often first as the others."""
    taken: list[list[float]] = [[] for _ in works]
    for work in works:
        work()
    for number in range(rounds):
        for step in range(len(works)):
            place = (number + step) % len(works)
            start = time.process_time()
            works[place]()
            taken[place].append(time.process_time() - start)
    return [statistics.median(times) for times in taken]
