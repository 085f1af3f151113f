"""Tracing with an example against the other ways to a graph: torch.export and make_fx.

All of them run the model on the example, or on values without data, so that one run of the model on the same inputs is
subtracted; torch.export's is of fake values, whose cost is its own.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fxcore
from benchmarks.library import Library
from benchmarks.result import Table, verdict
from benchmarks.subjects import inputs_of, model
from benchmarks.task import Task, measure_in_turns

NAMES = ("mobilenetv2", "resnet10", "densenet121", "vit_like", "gpt_like")
_TARGETS = {"make_fx": 3.0, "torch.export": 10.0}


def tracing_with_examples(libraries: tuple[Library, ...], rounds: int, say: Callable[[str], None]) -> list[Table]:
    """Measure tracing with an example of one item, without verifying, less one eager run; and with verifying, whole."""
    columns = ("model", "eager, ms", "fxcore, ms", "make_fx", "torch.export", "less eager: fxcore, ms",
               *[f"over fxcore: {name}" for name in _TARGETS], "with verify, ms")  # fmt: skip
    table = Table("Tracing with an example, batch 1", columns)
    ratios: dict[str, list[float]] = {name: [] for name in _TARGETS}
    for name in NAMES:
        say(name)
        eager, ours, *theirs, verified = [seconds * 1e3 for seconds in measure_in_turns(_tasks(name), rounds)]
        own = ours - eager
        over = {way: (taken - eager) / own for way, taken in zip(_TARGETS, theirs, strict=True)}
        for way, ratio in over.items():
            ratios[way].append(ratio)
        table.rows.append([name, eager, ours, *theirs, own, *over.values(), verified])
        say("... " + ", ".join([f"{way}: {ratio:.1f}x" for way, ratio in over.items()]))
    medians = Table("Tracing with an example, median over the models", ("way", "ratio", "target", "reached"))
    for way, found in ratios.items():
        ratio = statistics.median(found)
        medians.rows.append([way, ratio, _TARGETS[way], verdict(ratio, _TARGETS[way])])
    return [table, medians]


def _tasks(name: str) -> list[Task]:
    module = model(name)
    inputs = tuple([item[:1] if isinstance(item, torch.Tensor) and item.dim() else item for item in inputs_of(name)])

    def captured(_: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(module, inputs, strict=False)

    def traced_by_operators(_: Any) -> Any:
        return make_fx(lambda *values: module(*values))(*inputs)

    def traced(verify: bool) -> Task:
        return Task(lambda _: fxcore.symbolic_trace(module, example_inputs=inputs, verify=verify))

    return [
        Task(lambda _: module(*inputs)),
        traced(False),
        Task(traced_by_operators),
        Task(captured),
        traced(True),
    ]
