"""`fxgraph unused`: print goldens that no test asked for, over the reports of all shards of a run."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, SAME, print_lines
from pytest_fxgraph.errors import GoldenError, GoldenMissingError
from pytest_fxgraph.golden.files import begins_like_a_golden, file_tested_by, goldens_below, is_received
from pytest_fxgraph.golden.unused import unused_goldens
from pytest_fxgraph.report.json_report import read_record
from pytest_fxgraph.report.run_record import RunRecord


def add_unused(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "unused",
        help="name the goldens that no test asked for, over the reports of all shards",
        description="With reports of pytest --fx-report, one for each shard, all are merged before anything is judged. "
        "Without, goldens are named whose test file is gone. The exit status is 1 if there are any.",
    )
    parser.add_argument("reports", metavar="REPORT.json", nargs="*", type=Path, help="what pytest --fx-report wrote")
    parser.add_argument(
        "--golden-dir",
        type=Path,
        default=Path("golden"),
        metavar="DIR",
        help="without reports: where goldens lie, below the folder that is rootdir; default: %(default)s",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    records = [read_record(path) for path in options.reports] or [_record_of_disk(options.golden_dir)]
    unused = [golden for golden in unused_goldens(records) if not is_received(PurePosixPath(golden))]
    print_lines(unused)
    return DIFFERENT if unused else SAME


def _record_of_disk(folder: Path) -> RunRecord:
    """Return what can be known without a run: which goldens exist, and which of their test files do not."""
    if not folder.is_dir():
        raise GoldenMissingError(
            f"cannot look for goldens in {folder}: there is no such folder; name it with --golden-dir"
        )
    here = Path()
    if not folder.resolve().is_relative_to(here.resolve()):
        raise GoldenError(
            f"cannot tell which test files {folder} is for: it is not below this folder; change to the folder that is "
            "pytest's rootdir, or give reports of pytest --fx-report"
        )
    others = {}
    for golden in goldens_below(folder):
        file = file_tested_by(golden, here)
        if file is not None and begins_like_a_golden(folder / golden):
            others[(folder / golden).as_posix()] = file
    gone = tuple(file for file in set(others.values()) if not Path(here, file).exists())
    return RunRecord(had_path_arguments=False, finished=True, others=others, gone=gone)
