"""Measure recordings of a large suite: writing shards, merging them, reading them and comparing two of them.

`python -m benchmarks.replay 1000 10000 100000` records as many graphs, of half as many tests, a fifth of them distinct,
in 20 shards, twice. In the second recording, one of a hundred distinct graphs has another operator; `--changed 1.0`
changes all graphs, as an upgrade of torch may. Each size runs in a process of its own, so that its memory is known.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fixtures.documents import document
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import ModuleRecord
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.records import EndRecord, GraphRecord, OutcomeRecord, StartRecord
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.comparison import compare_recordings

T = TypeVar("T")

SHARDS = 20
CONSTANT = 987_654_321
LAYERS = 20  # of three nodes and one module


@functools.cache
def template(operator: str) -> str:
    """Return the text of a graph of 62 nodes with one constant and one operator to choose."""
    lines = ["%x = input x : float32[8, 16]"]
    last = "x"
    for layer in range(LAYERS):
        lines += [
            f"%linear_{layer} = self.layers.{layer}(%{last}) : float32[8, 16] @ layers.{layer}",
            f"%act_{layer} = {operator if layer == 10 else 'torch.relu'}(%linear_{layer}) : float32[8, 16]",
            f"%add_{layer} = operator.add(%act_{layer}, {CONSTANT if layer == 10 else layer}) : float32[8, 16]",
        ]
        last = f"add_{layer}"
    config = (("in_features", "16"), ("out_features", "16"))
    modules = tuple(ModuleRecord(f"layers.{layer}", "torch.nn.Linear", config) for layer in range(LAYERS))
    return encode(document("\n".join([*lines, f"return %{last}"]), modules=modules))


def graph_text(number: int, operator: str = "torch.relu") -> str:
    """Return the text of a graph; the number and the operator tell it from others."""
    return template(operator).replace(str(CONSTANT), str(number + 1000))


def write_shards(folder: Path, graphs: int, changed: float) -> None:
    """Record graphs in shards, as so many machines would."""
    distinct = max(graphs // 5, 1)
    names: dict[tuple[int, int], str] = {}
    per_shard = graphs // 2 // SHARDS
    for shard in range(SHARDS):
        store = RecordingStore(str(folder / f"shard-{shard}"))
        index = store.new_index(StartRecord(f"{folder.name}-{shard}", [], ["symbolic"], {}))
        for number in range(per_shard):
            test = f"tests/models/test_model_{shard}.py::TestModel::test_forward[{number}]"
            for order in range(2):
                # Tests of one model lie in one shard. One graph of ten is in all shards.
                graph = (
                    distinct - 1 - number % 10
                    if order
                    else (shard * per_shard + number) * distinct // (SHARDS * per_shard)
                )
                operator = "torch.sigmoid" if graph < distinct * changed else "torch.relu"
                if (shard, graph) not in names:
                    text = graph_text(graph, operator)
                    names[shard, graph] = hashlib.sha256(text.encode()).hexdigest()
                    store.keep(names[shard, graph], text)
                index.add(GraphRecord(test, order, "symbolic", "models.Model", names[shard, graph], "tests/a.py:12"))
            index.add(OutcomeRecord(test, "passed"))
            index.flush()
        index.add(EndRecord(per_shard, 2 * per_shard))
        index.close()


def merge(folder: Path) -> None:
    """Copy the shards over each other."""
    for shard in sorted(folder.glob("shard-*")):
        shutil.copytree(shard, folder / "merged", dirs_exist_ok=True)


def read(folder: Path) -> Recording:
    """Read the merge of the shards."""
    return Recording.read(RecordingStore(str(folder / "merged")))


def measure(graphs: int, changed: float) -> str:
    """Return a row of the table."""
    seconds: list[float] = []

    def timed(step: Callable[..., T], *arguments: object) -> T:
        begin = time.process_time()  # other work of the machine does not count
        result = step(*arguments)
        seconds.append(time.process_time() - begin)
        return result

    with tempfile.TemporaryDirectory(prefix="fxgraph-") as scratch:
        base, change = Path(scratch, "base"), Path(scratch, "change")
        timed(write_shards, base, graphs, 0.0)
        write_shards(change, graphs, changed)
        timed(merge, base)
        merge(change)
        before = timed(read, base)
        replay = timed(compare_recordings, before, read(change))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    steps = "".join(f" {each:.2f} |" for each in seconds)
    return f"| {graphs:,} |{steps} {len(replay.changed):,} | {memory:,.0f} |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--changed", type=float, default=0.01, help="the share of distinct graphs that differ")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_this_process:
        print(measure(options.sizes[0], options.changed))
        return
    print("| graphs | write 20 shards, s | merge, s | read, s | compare, s | changed | peak memory, MB |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in options.sizes:
        command = [sys.executable, "-m", "benchmarks.replay", "--in-this-process", "--changed", str(options.changed)]
        subprocess.run([*command, str(size)], check=True)


if __name__ == "__main__":
    main()
