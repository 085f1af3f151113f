"""Measure fxcore against torch.fx, in one process and in turns; print tables and write them."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

from benchmarks.checkout import beside
from benchmarks.library import Library, both
from benchmarks.report import SECTIONS
from benchmarks.result import Table, machine


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--rounds", type=int, default=7, help="how often each side is measured (default 7)")
    parser.add_argument("--out", type=Path, default=Path("benchmark-results"), help="folder for JSON and markdown")
    parser.add_argument("--against", type=Path, help="another checkout of this repository, measured in the same turns")
    parser.add_argument("--alone", action="store_true", help="with --against: leave torch.fx out")
    options = parser.parse_args(arguments)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"there is no section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    warnings.simplefilter("ignore")
    ours, torch_fx = both()
    libraries: tuple[Library, ...] = (ours, torch_fx)
    if options.against is not None:
        ours, there = beside(options.against)
        libraries = (ours, there) if options.alone else (ours, torch_fx, there)
    tables: list[Table] = []
    for name in options.sections or SECTIONS:
        # The phases take every library, other sections two.
        found = SECTIONS[name](libraries if name == "phases" else libraries[:2], options.rounds, _say)
        tables += found
        for table in found:
            print(table.markdown(), flush=True)
        write(tables, options.out, "fxcore")  # after each section: the whole takes long


def _say(what: str) -> None:
    print(f"measuring {what} ...", file=sys.stderr, flush=True)


def write(tables: list[Table], folder: Path, name: str) -> None:
    """Write tables to `<name>.json` and `<name>.md` in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"machine": machine(), "tables": [table.data() for table in tables]}
    (folder / f"{name}.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = "\n".join([f"{machine()}\n", *[table.markdown() for table in tables]])
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
