"""Measure the plugin against syrupy, pytest-regressions and a bare DeepDiff; print tables and write them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest_fxgraph
from benchmarks.__main__ import write
from benchmarks.plugin.commands import commands
from benchmarks.plugin.differences import differences
from benchmarks.plugin.installation import Installation, checkout, installed
from benchmarks.plugin.processes import whole_processes
from benchmarks.plugin.scaling import scaling
from benchmarks.plugin.start_up import start_up
from benchmarks.result import Table

SECTIONS = ("processes", "start-up", "commands", "differences", "scaling")
_START_UP_ROUNDS = 8  # times as many: what is measured there is a hundredth of the process


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plugin", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="how many processes of each tool (default 5)")
    parser.add_argument("--nodes", type=int, default=10_000, help="size of the graph with an insertion")
    parser.add_argument("--tree", action="store_true", help="measure the working tree in place of an installed wheel")
    parser.add_argument("--against", type=Path, help="another checkout of this repository, measured beside it")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder for JSON and markdown")
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"there is no section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    chosen = options.sections or SECTIONS
    tables: list[Table] = []
    if {"processes", "start-up", "commands"} & set(chosen):
        with installed(as_wheel=not options.tree) as installation:
            print(f"Processes run {installation.description}.\n", flush=True)
            tables += _of_processes(installation, chosen, options.rounds, options.against)
    if {"differences", "scaling"} & set(chosen):
        print(f"What follows runs in this process, with the plugin in {Path(pytest_fxgraph.__file__).parent}.\n")
    if "differences" in chosen:
        tables += _shown([differences(options.nodes)])
    if "scaling" in chosen:
        tables += _shown(scaling())
    write(tables, options.out, "plugin")


def _of_processes(installation: Installation, chosen: Sequence[str], rounds: int, other: Path | None) -> list[Table]:
    against = None if other is None else checkout(other.resolve())
    tables: list[Table] = []
    sections: dict[str, Callable[[], Table]] = {
        "processes": lambda: whole_processes(installation, rounds, against),
        "start-up": lambda: start_up(installation, rounds * _START_UP_ROUNDS),
        "commands": lambda: commands(installation, rounds),
    }
    for name, measure in sections.items():
        if name in chosen:
            table = measure()
            table.title += f" ({installation.description})"
            tables += _shown([table])
    return tables


def _shown(tables: list[Table]) -> list[Table]:
    for table in tables:
        print(table.markdown(), flush=True)
    return tables


if __name__ == "__main__":
    main()
