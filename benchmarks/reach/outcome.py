"""What is found out of one model."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.reach.causes import cause_of
from benchmarks.reach.time_limit import OutOfTimeError, at_most
from benchmarks.reach.values import difference
from benchmarks.reach.ways import WAYS, NotThereError
from fixtures.reach.model import ReachModel, seed_generators
from fxcore.errors import GuardError

Data = dict[str, Any]
SEED = 7
VARIES = "eager differs from itself"
FRESH = 11  # seed of inputs other than the example's


def run(callee: Callable[..., Any], arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """Call with the generators of torch, Python and numpy at a fixed seed and without gradients."""
    args, kwargs = arguments
    seed_generators(SEED)
    with torch.no_grad():
        return callee(*args, **kwargs)


def error_of(error: BaseException) -> Data:
    """Describe an error: its class, its first lines, and where the model's code stood."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if "/torch/" not in frame.filename and "/fxcore/" not in frame.filename]
    place = outside[-1] if outside else frames[-1]
    file = "/".join(place.filename.split("/")[-2:])
    return {
        "error": type(error).__name__,
        "message": str(error).strip()[:400],
        "place": f"{file}:{place.lineno}: {(place.line or '').strip()[:160]}",
    }


def facts_of(model: ReachModel, limit: float) -> Data:
    """Build a model and run it: how large it is, whether its results are repeatable, whether it runs in train mode."""
    started = time.perf_counter()
    module = model.build()
    found: Data = {"build_s": round(time.perf_counter() - started, 2)}
    found["parameters"] = sum(parameter.numel() for parameter in module.parameters())
    arguments = model.inputs()
    seed_generators(SEED)
    generator, of_python = torch.random.get_rng_state(), random.getstate()
    started = time.perf_counter()
    with at_most(limit):
        expected = run(module, arguments)
    found["eager_s"] = round(time.perf_counter() - started, 3)
    found["random"] = not torch.equal(generator, torch.random.get_rng_state()) or of_python != random.getstate()
    found["repeatable"] = difference(expected, run(model.build(), model.inputs()))
    found["stateful"] = difference(expected, run(module, model.inputs()))
    for name, task in {
        "second": lambda: run(model.build(), model.inputs(1)),
        "train": lambda: run(model.build().train(), model.inputs()),
    }.items():
        try:
            with at_most(limit):
                task()
            found[name] = None
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def outcome_of(model: ReachModel, way: str, limit: float, *, train: bool = False, brief: bool = False) -> Data:
    """Capture a model in one way and compare the result with eager on the example, on fresh inputs, on another size."""
    found: Data = {}
    try:
        with at_most(limit):
            module = model.build().train(train)
            arguments = model.inputs()
            started = time.perf_counter()
            graph, found["nodes"], found["guards"] = WAYS[way].capture(module, arguments)
            found["seconds"] = round(time.perf_counter() - started, 4)
    except NotThereError as error:
        return {"status": "not there", "message": str(error)}
    except OutOfTimeError as error:
        return {"status": "out of time", "error": "OutOfTimeError", "message": str(error), "cause": "out of time"}
    except RecursionError as error:
        return {"status": "failed", **error_of(error), "cause": "recursion"}
    except Exception as error:
        return {"status": "failed", **error_of(error), "cause": cause_of(error)}
    if brief:
        return {"status": "captured", **found}
    return {"status": "captured", **found, **comparisons(model, graph, train, limit)}


def refusal_of(graph: nn.Module, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> str | None:
    """Say how a graph's guards refuse inputs on which it does not do what the model does; None if they do not."""
    args, kwargs = arguments
    try:
        if hasattr(graph, "check_guards"):
            graph.check_guards(*args, **kwargs)
    except GuardError as error:
        return f"raises GuardError: {str(error)[:160]}"
    return None


def variation_of(model: ReachModel, which: int, seed: int, train: bool, obtained: Any) -> str | None:
    """Say that eager gives other results in another run from the same seeds, if that tells why the graph does.

    Either two new models differ, or the graph does what a model does in its second run.
    """
    module = model.build().train(train)
    first, second = (run(module, model.inputs(which, seed)) for _ in range(2))
    found = difference(first, run(model.build().train(train), model.inputs(which, seed)))
    if found is None and difference(second, obtained) is None:
        found = difference(first, second)
    return found and f"{VARIES}: {found}"


def comparisons(model: ReachModel, graph: nn.Module, train: bool, limit: float) -> Data:
    """Compare a graph with a newly built model: None where they agree, else how they differ."""
    found: Data = {}
    kept = [(tensor, tensor.detach().clone()) for tensor in (*graph.parameters(), *graph.buffers())]
    for name, which, seed in (("example", 0, 1), ("fresh", 0, FRESH), ("second", 1, FRESH)):
        try:
            with at_most(limit):
                expected = run(model.build().train(train), model.inputs(which, seed))
        except Exception:
            continue  # the model itself does not take such inputs
        try:
            with at_most(limit):
                obtained = run(graph, model.inputs(which, seed))
        except Exception as error:
            found[name] = f"raises {type(error).__name__}: {str(error)[:160]}"
        else:
            differs = difference(expected, obtained)
            found[name] = differs and (
                refusal_of(graph, model.inputs(which, seed))
                or variation_of(model, which, seed, train, obtained)
                or differs
            )
        with torch.no_grad():
            for tensor, before in kept:  # what a run changes, the next one must not see
                tensor.copy_(before)
    return found
