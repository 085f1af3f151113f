"""Measure what can be traced of the models listed in fixtures/reach; write a line of JSON for each."""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.reach.ways import WAYS
from benchmarks.reach.worker import work
from fixtures.reach.catalog import models_named
from fixtures.reach.model import ReachModel

Data = dict[str, Any]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reach", description=__doc__)
    parser.add_argument("models", nargs="*", help="packages, or models such as timm/resnet18; all by default")
    parser.add_argument("--ways", default="torch_fx,plain,examples", help=f"of {','.join(WAYS)}, or none")
    parser.add_argument("--train", action="store_true", help="capture the models that run in train mode there, too")
    parser.add_argument("--brief", action="store_true", help="capture only: run nothing and compare nothing")
    parser.add_argument("--sizes", action="store_true", help="count the sizes that each graph leaves free")
    parser.add_argument("--every", type=int, default=1, help="measure every n-th model of the list only")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one model in one way (default 120)")
    parser.add_argument("--out", type=Path, default=Path("reach-results.jsonl"), help="results; appended to")
    parser.add_argument("--again", action="store_true", help="also measure models that the results hold already")
    options = parser.parse_args()
    ways = [way for way in options.ways.split(",") if way and way != "none"]
    if unknown := set(ways) - set(WAYS):
        parser.error(f"there is no way {', '.join(sorted(unknown))}; choose from {', '.join(WAYS)}")
    known = set() if options.again or not options.out.exists() else names_in(options.out)
    task = {"ways": ways, "limit": options.limit, "train": options.train, "brief": options.brief}
    task["sizes"] = options.sizes
    if options.sizes:
        importlib.import_module("torch._dynamo")  # once, and not in the process of each package
        importlib.import_module("torch._export")
    by_package: dict[str, list[ReachModel]] = {}
    for model in models_named(options.models)[:: options.every]:
        if str(model) not in known:
            by_package.setdefault(model.package, []).append(model)
    with options.out.open("a", encoding="utf-8") as file:
        for members in by_package.values():
            for found in results_of(members, task):
                file.write(json.dumps(found) + "\n")
                file.flush()
                print(summary_of(found), flush=True)


def names_in(file: Path) -> set[str]:
    """Return the models that a file of results holds."""
    return {json.loads(line)["model"] for line in file.read_text(encoding="utf-8").splitlines()}


def results_of(models: list[ReachModel], task: Data) -> Iterator[Data]:
    """Measure models in a process of their own; a new one goes on behind a model that crashes or hangs."""
    left = list(models)
    # The worker itself stops what runs too long; this is for compiled code that does not let it.
    patience = task["limit"] * (6 + 4 * len(task["ways"]))
    context = multiprocessing.get_context("fork")  # torch is imported once, the packages in each worker
    while left:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(sender, left, task))
        process.start()
        sender.close()
        started = str(left[0])
        hung = False
        while True:
            hung = not receiver.poll(patience)
            try:
                found = {} if hung else receiver.recv()
            except EOFError:
                break
            if hung:
                process.kill()
                break
            started = found.get("start", started)
            if "model" in found:
                left = [model for model in left if str(model) != found["model"]]
                yield found
        process.join()
        if left:
            left = [model for model in left if str(model) != started]
            yield {"model": started, "status": "out of time" if hung else f"crashed with exit code {process.exitcode}"}


def summary_of(found: Data) -> str:
    """Say in a line what was found of a model."""
    words = [f"{found['model']}: {found['status']}"]
    if found["status"] != "runs":
        words.append(f"{found.get('error', '')} {found.get('message', '')} {found.get('place', '')}"[:600])
        return " ".join(words)
    if "build_s" in found:
        words += facts_in_words(found)
    words += [f"| free sizes: {found['sizes']}"] if "sizes" in found else []
    for way, result in found["ways"].items():
        words.append(f"| {way}: {result['status']} {result.get('cause', '')}".rstrip())
        words += [f"{key}: {result[key]}" for key in ("example", "fresh", "second") if result.get(key)]
    return " ".join(words)


def facts_in_words(found: Data) -> list[str]:
    """Say what was found of a model before it was captured."""
    words = [f"build {found['build_s']}s eager {found['eager_s']}s {found['parameters']:,}"]
    words += [f"{key}={found[key]}" for key in ("repeatable", "stateful", "second", "train") if found[key]]
    return words + (["random"] if found["random"] else [])


if __name__ == "__main__":
    main()
