"""`fxgraph unused`: print goldens that no test asked for, over the reports of all shards of a run."""

from __future__ import annotations

import argparse
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, SAME, print_lines
from pytest_fxgraph.command.project import add_golden_dir, golden_layout_here
from pytest_fxgraph.errors import GoldenError, GoldenMissingError
from pytest_fxgraph.goldens.files import begins_like_a_golden, is_received
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.unused import unused_goldens
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
    add_golden_dir(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    records = [read_record(path) for path in options.reports] or [
        _record_of_disk(golden_layout_here(options.golden_dir))
    ]
    unused = [golden for golden in unused_goldens(records) if not is_received(PurePosixPath(golden))]
    print_lines(unused)
    return DIFFERENT if unused else SAME


def _record_of_disk(layout: GoldenLayout) -> RunRecord:
    """Return what can be known without a run: which goldens exist, and which of their test files do not."""
    folder = layout.root
    if not folder.is_dir():
        raise GoldenMissingError(
            f"cannot look for goldens in {folder}: there is no such folder; name it with --golden-dir"
        )
    if not folder.resolve().is_relative_to(layout.rootpath.resolve()):
        raise GoldenError(
            f"cannot tell which test files {folder} is for: it is not below this folder; change to the folder that is "
            "pytest's rootdir, or give reports of pytest --fx-report"
        )
    others = {}
    for golden in layout.goldens():
        file = layout.file_tested_by(golden)
        if file is not None and begins_like_a_golden(folder / golden):
            others[(folder / golden).as_posix()] = file
    gone = tuple(file for file in set(others.values()) if not Path(layout.rootpath, file).exists())
    return RunRecord(had_path_arguments=False, finished=True, others=others, gone=gone)
