"""What `fx_equivalence` costs beside the runs of model and graph that it makes."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import nn

import fxcore
from benchmarks.library import Library
from benchmarks.result import Table
from fixtures.catalog import CATALOG
from fixtures.models.vit_like import VitLike
from pytest_fxgraph.equivalence import check as checking
from pytest_fxgraph.equivalence.fixture import FxEquivalence
from pytest_fxgraph.equivalence.run import RunResult, run_model

# By name: the file of a model of pytorchcv. Other models are of the zoo, or made here.
SUBJECTS = {
    "resnet18": "resnet",
    "resnet50": "resnet",
    "densenet121": "densenet",
    "squeezenet_v1_1": "squeezenet",
    "mobilenetv2_w1": "mobilenetv2",
    "efficientnet_b0": "efficientnet",
    "mobilenetv3_large_w1": "mobilenetv3",
    "shufflenetv2_w1": "shufflenetv2",
    "vit_tiny_16": "",
    "vit_like": "",
}
TARGET = 1.2
COLUMNS = (
    "model",
    "runs",
    "bare runs, ms",
    "check, graph given",
    "the trace",
    "check with tracing",
    "target",
    "reached",
)

_ROUNDS = 3  # for each that the command asks for: pages and caches make single measurements jump


def subject_of(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Build a model with random weights, and an input of batch 1."""
    torch.manual_seed(0)
    image = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    if name == "vit_tiny_16":
        return VitLike(width=192, heads=3, classes=1000, patches=28 * 28).eval(), image
    if name in CATALOG and not SUBJECTS[name]:
        entry = CATALOG[name]
        return entry.build().eval(), entry.example_inputs()[0][:1]
    models: Any = importlib.import_module(f"pytorchcv.models.{SUBJECTS[name]}")
    return getattr(models, name)().eval(), image


def overheads(libraries: tuple[Library, ...], rounds: int, say: Callable[[str], None]) -> list[Table]:
    """Measure the check on every subject, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    table = Table("fx_equivalence at batch 1, CPU time over that of its runs", COLUMNS)
    try:
        for name in SUBJECTS:
            say(f"the check of {name}")
            table.rows.append([name, *_row(*subject_of(name), rounds * _ROUNDS)])
    finally:
        torch.set_num_threads(threads)
    columns = [[row[index] for row in table.rows] for index in (3, 4, 5)]
    medians = [statistics.median(column) for column in columns]
    table.rows.append(["median", "", "", *medians, TARGET, _reached(medians[0])])
    return [table]


def _row(model: nn.Module, inputs: torch.Tensor, rounds: int) -> list[object]:
    graph = fxcore.symbolic_trace(model)
    check = FxEquivalence()
    runs = _runs_of(lambda: check(model, inputs, graph=graph))

    def bare_runs() -> None:
        # As the check does it: what one returned is gone before the next runs.
        for _ in range(runs // 2):
            model(inputs)
            graph(inputs)

    works: list[Callable[[], object]] = [
        bare_runs,
        lambda: check(model, inputs, graph=graph),
        lambda: fxcore.symbolic_trace(model),
        lambda: check(model, inputs),
    ]
    bare, given, trace, traced = _medians(works, rounds)
    return [runs, bare * 1e3, given / bare, trace / bare, traced / bare, TARGET, _reached(given / bare)]


def _reached(ratio: float) -> str:
    return "yes" if ratio <= TARGET else "**no**"


def _runs_of(work: Callable[[], object]) -> int:
    """Count the runs of model and graph that a check makes."""
    counts: list[int] = []

    def counted(*args: Any) -> Any:
        result = run_model(*args)
        counts.append(2 if isinstance(result, RunResult) and result.second_output is not None else 1)
        return result

    with mock.patch.object(checking, "run_model", counted):
        work()
    return sum(counts)


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
