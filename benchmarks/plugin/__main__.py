"""Measure the plugin against syrupy, pytest-regressions and a bare DeepDiff; print tables and write them."""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
from pathlib import Path

from benchmarks.__main__ import write
from benchmarks.plugin.differences import explained, with_deepdiff
from benchmarks.plugin.process import cpu_seconds
from benchmarks.plugin.suite import SUITES, TESTS, Suite
from benchmarks.result import Table


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plugin", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many processes of each tool (default 3)")
    parser.add_argument("--nodes", type=int, default=10_000, help="size of the graph that is compared")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder for JSON and markdown")
    options = parser.parse_args(arguments)
    tables = [whole_processes(options.rounds), differences(options.nodes)]
    for table in tables:
        print(table.markdown(), flush=True)
    write(tables, options.out, "plugin")


def whole_processes(rounds: int) -> Table:
    """Time processes of 200 tests that trace mobilenetv2 and find their golden equal."""
    table = Table(f"{TESTS} tests that trace mobilenetv2, all matching", ("tool", "ms a test", "over pytest-fxgraph"))
    seconds: dict[str, float] = {}
    for suite in SUITES:
        if importlib.util.find_spec(suite.module) is None:
            print(f"{suite.tool} is left out: {suite.module} is not installed; pip install 'pytest-fxgraph[bench]'")
        else:
            seconds[suite.tool] = _seconds(suite, rounds)
    idle = seconds.pop("no golden")
    ours = seconds["pytest-fxgraph"] - idle
    for tool, taken in seconds.items():
        table.rows.append([tool, (taken - idle) / TESTS * 1e3, (taken - idle) / ours])
    return table


def _seconds(suite: Suite, rounds: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "test_graphs.py").write_text(suite.source, encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        cpu_seconds(place, suite.update, must_pass=False)  # some tools fail the run that writes
        return statistics.median([cpu_seconds(place, ()) for _ in range(rounds)])


def differences(nodes: int) -> Table:
    """Compare the explanation of one insertion that renumbers all later names."""
    table = Table(f"One insertion at the front of {nodes:,} nodes", ("tool", "CPU seconds", "answer"))
    for tool, explain in (("pytest-fxgraph", explained), ("DeepDiff", with_deepdiff)):
        answer, seconds = explain(nodes)
        table.rows.append([tool, seconds, answer])
    return table


if __name__ == "__main__":
    main()
