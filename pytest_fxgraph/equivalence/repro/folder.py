"""A folder that reproduces a mismatch without the test: a script, and the modules and inputs that it loads."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import re
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fxcore
from pytest_fxgraph.equivalence.gradients import cotangent
from pytest_fxgraph.equivalence.mismatch import Mismatch
from pytest_fxgraph.equivalence.nested_values import tensors_in, walk
from pytest_fxgraph.equivalence.repro.script import ScriptFacts, script_text
from pytest_fxgraph.equivalence.run import InterpreterCall, RunResult, RunSettings
from pytest_fxgraph.rng import RngState

# What is only told of the graph itself, a script that runs it does not show.
_NOT_REPRODUCED = ("code",)


class ReproductionFolder:
    """Where the mismatches of one test are written to."""

    def __init__(self, folder: str | os.PathLike[str], test: str) -> None:
        """Write below `folder`, in a folder named by the test's id."""
        self._test = test
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test)[-80:].strip("-.")
        self._place = Path(folder) / f"{name}-{hashlib.sha256(test.encode()).hexdigest()[:8]}"
        self._written = 0

    def write(
        self,
        headline: str,
        model: Any,
        graph: Any,
        call: Any,
        settings: RunSettings,
        expected: RunResult,
        mismatches: list[Mismatch],
    ) -> str | None:
        """Write one mismatch and say in a line where; None for one that running both again would not show."""
        if not isinstance(graph, fxcore.GraphModule) or all(each.kind in _NOT_REPRODUCED for each in mismatches):
            return None
        self._written += 1
        place = self._place if self._written == 1 else self._place.with_name(f"{self._place.name}-{self._written}")
        interpreter = call.kind if isinstance(call, InterpreterCall) else None
        homes = dict.fromkeys(home for home in (home_of(model), home_of(interpreter)) if home is not None)
        try:
            place.mkdir(parents=True, exist_ok=True)
            held = graph if interpreter is not None else state_of(graph)
            has_model = _save(place / "state.pt", model, held, settings, expected)
            facts = ScriptFacts(headline, self._test, graph, interpreter, settings, mismatches, has_model, tuple(homes))
            (place / "repro.py").write_text(script_text(facts), encoding="utf-8", newline="\n")
        except (OSError, pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
            return f"no script that reproduces it could be written to {place}: {type(error).__name__}: {error}"
        return f"to reproduce it without the tests: python {place / 'repro.py'}"


def _save(file: Path, model: Any, held: nn.Module, settings: RunSettings, expected: RunResult) -> bool:
    """Save all in one file, so that what model and graph share stays shared; tell whether the model is in it."""
    outputs = tensors_in(expected.output, "output") if settings.grads else []
    before = settings.guard.state_of(model).tensors
    state = {
        "graph": held,
        "args": settings.arguments.args,
        "kwargs": settings.arguments.kwargs,
        "before": {f"state {settings.names.name(state)}": state.tensor for state in before},
        "weights": {path: cotangent(path, tensor, settings.seed) for path, tensor in outputs},
    }
    try:
        torch.save({**state, "model": model}, file)
        return True
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        # A class within a function, a lambda: what eager left is compared with instead.
        torch.save({**state, "model": None, "seen": _seen(model, settings, expected)}, file)
        return False


def _seen(model: Any, settings: RunSettings, expected: RunResult) -> dict[str, Any]:
    """Say what a run of the model left, by the names under which the script looks for it in the graph's."""
    seen = {path: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf
            for path, leaf in walk(expected.output, "output")}  # fmt: skip
    seen.update((where, tensor.detach()) for where, tensor in expected.arguments.tensors())
    seen.update(_next_numbers(expected.rng))
    for path, holders in expected.sharing.items():
        seen[f"memory shared by {path}"] = sorted(name for name, _ in holders)
    for state in [*settings.guard.state_of(model).tensors, *expected.state.changed.values()]:
        seen[f"state {settings.names.name(state)}"] = state.tensor.detach()
    if expected.gradients is not None:
        seen.update((f"gradient of {name}", gradient) for name, gradient in expected.gradients.items())
        seen.update((f"requires_grad of {path}", tensor.requires_grad)
                    for path, tensor in tensors_in(expected.output, "output"))  # fmt: skip
    return seen


def _next_numbers(rng: RngState) -> dict[str, float]:
    """Draw what the generators would have given after the model's call."""
    torchs, pythons = torch.Generator(), random.Random()
    torchs.set_state(rng.cpu)
    pythons.setstate(rng.python)
    return {
        "the next number of torch": torch.rand((), generator=torchs).item(),
        "the next number of random": pythons.random(),
    }


def state_of(graph: fxcore.GraphModule) -> nn.Module:
    """Make a plain module that holds what the generated code reads of a graph module, shared, not copied."""
    holder = nn.Module()
    known = vars(graph)
    wanted = {*vars(holder), "_in_spec", "_out_spec"} | {
        str(node.target).partition(".")[0] for node in graph.graph.nodes
    }
    vars(holder).update({name: known[name] for name in wanted if name in known})
    return holder


def home_of(obj: Any) -> str | None:
    """Give the folder from which a class or function, or the class of a module, can be imported."""
    kind = type(obj) if isinstance(obj, nn.Module) else obj
    module = getattr(kind, "__module__", None) or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(file).resolve().parents[module.count(".")]) if file else None
