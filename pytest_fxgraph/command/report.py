"""`fxgraph report`: merge the JSON reports of all shards of a run into one in Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, SAME, print_lines
from pytest_fxgraph.draw.run_markdown import run_markdown
from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.goldens.store import write_whole
from pytest_fxgraph.goldens.unused import unused_goldens
from pytest_fxgraph.report.json_report import RunReport, read_report
from pytest_fxgraph.report.summary import counted_goldens, results_of


def add_report(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        help="merge the reports of all shards into one, for a pull request",
        description="Takes what pytest --fx-report wrote as .json, one for each shard. Without -o, it is printed. "
        "The exit status is 1 if a golden or a check failed.",
    )
    parser.add_argument("reports", metavar="REPORT.json", nargs="+", type=Path, help="what pytest --fx-report wrote")
    parser.add_argument("-o", "--output", metavar="PATH", help="write to this file, a .md, instead")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.output is not None and not options.output.endswith(".md"):
        raise ReportError(
            f"cannot write the report {options.output}: what is merged is Markdown, as the graphs are not in the "
            "reports; give a path that ends in .md"
        )
    report = merged_report([read_report(path) for path in options.reports])
    text = run_markdown(report)
    if options.output is None:
        print_lines(text.rstrip("\n").split("\n"))
    else:
        write_whole(Path(options.output), text, "report", shown_as=options.output)
        print_lines([f"wrote the report {options.output}: {report.summary or 'no golden was compared'}"])
    has_failed = any(outcome.status not in ("matched", "updated") for outcome in report.outcomes)
    return DIFFERENT if has_failed or report.failures else SAME


def merged_report(reports: Sequence[RunReport]) -> RunReport:
    """Return the report of a run whose shards made these; what no shard asked for is judged over all of them."""
    outcomes = tuple(outcome for report in reports for outcome in report.outcomes)
    unused = unused_goldens([report.record for report in reports])
    return RunReport(
        counted_goldens(results_of(outcomes).values(), len(unused)),
        reports[0].record,
        outcomes,
        unused,
        tuple(dict.fromkeys(section for report in reports for section in report.sections)),
        tuple(failure for report in reports for failure in report.failures),
    )
