"""The process that measures the models of one package."""

from __future__ import annotations

import os
import warnings
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.reach.free_sizes import free_sizes_of
from benchmarks.reach.outcome import OutOfTimeError, error_of, facts_of, outcome_of
from fixtures.reach.model import ReachModel

Data = dict[str, Any]


def work(results: Connection, models: list[ReachModel], task: Data) -> None:
    """Send `{"start": name}` before each model, and what was found of it after."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # packages print while they are imported
        os.dup2(nowhere, descriptor)
    warnings.simplefilter("ignore")
    for model in models:
        results.send({"start": str(model)})
        results.send({"model": str(model), **measured(model, **task)})
    results.close()


def measured(
    model: ReachModel, ways: list[str], limit: float, *, train: bool, brief: bool, sizes: bool = False
) -> Data:
    """Measure one model in the given ways."""
    try:
        found = facts_of(model, limit) if not brief else {}
    except ImportError as error:
        return {"status": "missing", "message": f"{type(error).__name__}: {error}"[:300]}
    except (Exception, OutOfTimeError) as error:
        return {"status": "broken", **error_of(error)}
    found["ways"] = {way: outcome_of(model, way, limit, brief=brief) for way in ways}
    if train and found.get("train") is None:
        found["train_ways"] = {way: outcome_of(model, way, limit, train=True) for way in ways}
    if sizes:
        found["sizes"] = free_sizes_of(model, limit)
    return {"status": "runs", **found}
