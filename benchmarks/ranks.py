"""A decoder of 7 billion parameters on the meta device, captured and counted for every rank in one process.

Run it as `python -m benchmarks.ranks`; each layer count and step is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace

from benchmarks.result import Table, machine

_LAYERS = (8, 16, 32)


def measured(layers: int, world_size: int, mode: str) -> dict[str, float]:
    """Return CPU seconds with imports, peak memory in MB, and nodes of a rank, for a tensor-parallel decoder."""
    import resource

    from fixtures.decoder_plans import tensor_parallel, tokens
    from fixtures.llama_like import Sizes
    from pytest_fxgraph.ranks.fixture import FxRanks

    sizes = replace(Sizes(), layers=layers)
    programs = FxRanks()(tensor_parallel(sizes), tokens(), world_size=world_size, mode=mode)
    captured = time.process_time()
    _ = programs.cost
    counted = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    nodes = len(programs.graphs[0].graph.nodes)
    return {"nodes": nodes, "capture": captured, "cost": counted - captured, "peak": peak}


def main() -> None:
    """Print a table of layers and steps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--ranks", type=int, default=8, help="the number of ranks (default 8)")
    parser.add_argument("--one", nargs=2, metavar=("LAYERS", "MODE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(int(options.one[0]), options.ranks, options.one[1])))
        return
    columns = ("step", "layers", "nodes of a rank", "capture, CPU s", "cost, CPU s", "peak, MB")
    table = Table(f"LlamaLike, tensor parallel over {options.ranks} ranks", columns)
    for mode in ("eval", "train"):
        for layers in _LAYERS:
            command = [
                sys.executable,
                "-m",
                "benchmarks.ranks",
                "--ranks",
                str(options.ranks),
                "--one",
                str(layers),
                mode,
            ]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            table.rows.append([mode, layers, *(found[name] for name in ("nodes", "capture", "cost", "peak"))])
    print(f"{machine()}\n\n{table.markdown()}")


if __name__ == "__main__":
    main()
