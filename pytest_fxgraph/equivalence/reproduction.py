"""A folder that reproduces a mismatch without the test: a script, and the modules and inputs that it loads."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.lanes import LaneSettings
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.reproduction_script import ScriptFacts, script_text

# Seen by running model and graph side by side; what a transform did to its model is not.
_REPRODUCED = ("error", "structure", "dtype", "shape", "value", "mutation", "state", "gradient")


class ReproductionFolder:
    """Where the mismatches of one test are written to."""

    def __init__(self, folder: str | os.PathLike[str], test: str) -> None:
        """Write below `folder`, in a folder named by the test's id."""
        self._test = test
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test)[-80:].strip("-.")
        self._place = Path(folder) / f"{name}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
        self._written = 0

    def write(
        self, headline: str, model: Any, graph: Any, settings: LaneSettings, expected: Any, mismatches: list[Mismatch]
    ) -> str | None:
        """Write one mismatch and say in a line where; None for one that running both again would not show."""
        if not isinstance(graph, fxcore.GraphModule) or not any(each.kind in _REPRODUCED for each in mismatches):
            return None
        self._written += 1
        place = self._place if self._written == 1 else self._place.with_name(f"{self._place.name}-{self._written}")
        try:
            place.mkdir(parents=True, exist_ok=True)
            has_model = _save(place / "state.pt", model, graph, settings, expected)
            facts = ScriptFacts(headline, self._test, graph, settings, mismatches, has_model, _home_of(model))
            (place / "repro.py").write_text(script_text(facts), encoding="utf-8", newline="\n")
        except (OSError, pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
            return f"no script that reproduces it could be written to {place}: {type(error).__name__}: {error}"
        return f"to reproduce it without the tests: python {place / 'repro.py'}"


def _save(file: Path, model: Any, graph: fxcore.GraphModule, settings: LaneSettings, expected: Any) -> bool:
    """Save all in one file, so that what model and graph share stays shared; tell whether the model is in it."""
    state = {
        "graph": state_of(graph),
        "args": settings.arguments.args,
        "kwargs": settings.arguments.kwargs,
        "expected": expected,
    }
    try:
        torch.save({**state, "model": model}, file)
        return True
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        # A class within a function, a lambda: what eager returned is compared with instead.
        torch.save({**state, "model": None}, file)
        return False


def state_of(graph: fxcore.GraphModule) -> nn.Module:
    """Make a plain module that holds what the generated code reads of a graph module, shared, not copied."""
    holder = nn.Module()
    known = vars(graph)
    wanted = {*vars(holder), "_in_spec", "_out_spec"} | {
        str(node.target).partition(".")[0] for node in graph.graph.nodes
    }
    vars(holder).update({name: known[name] for name in wanted if name in known})
    return holder


def _home_of(model: Any) -> str | None:
    """Give the folder from which the model's class, or the function that it is, can be imported."""
    kind = type(model) if isinstance(model, nn.Module) else model
    module = getattr(kind, "__module__", None) or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(file).resolve().parents[module.count(".")]) if file else None
