"""`fxgraph report`: merge the JSON reports of all shards of a run, or name the goldens that no test asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from pytest_fxgraph.command.output import DIFFERENT, SAME, add_json, print_answer, print_lines
from pytest_fxgraph.command.project import add_golden_dir, golden_layout_here
from pytest_fxgraph.errors import GoldenError, GoldenMissingError, ReportError
from pytest_fxgraph.goldens.files import begins_like_a_golden, is_received
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.store import write_whole
from pytest_fxgraph.goldens.unused import unused_goldens
from pytest_fxgraph.report.json_report import RunReport, json_text, read_record, read_report
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.report.summary import counted_goldens, results_of

HELP = "merge the reports of all shards into one, or name unused goldens"
DESCRIPTION = (
    "Takes what pytest --fx-report wrote as .json, one for each shard. Without -o, the report is printed. The exit "
    "status is 1 if a golden or a check failed. With --unused, the goldens that no test asked for are named, one a "
    "line, and the exit status is 1 if there are any; without reports, goldens are named whose test file is gone."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("reports", metavar="REPORT.json", nargs="*", type=Path, help="what pytest --fx-report wrote")
    parser.add_argument("--unused", action="store_true", help="name the goldens that no test of any shard asked for")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-o", "--output", metavar="PATH", help="write to this file, a .md, instead")
    add_json(form)
    add_golden_dir(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    if options.unused:
        return _print_unused(options)
    if not options.reports:
        raise ReportError("cannot merge reports: none is named; give those that pytest --fx-report wrote as .json")
    if options.output is not None and not options.output.endswith(".md"):
        raise ReportError(
            f"cannot write the report {options.output}: what is merged is Markdown, as the graphs are not in the "
            "reports; give a path that ends in .md"
        )
    report = merged_report([read_report(path) for path in options.reports])
    if options.json:
        print(json_text(report), end="")
    else:
        _write_markdown(report, options.output)
    return DIFFERENT if report.failures or any(outcome.has_failed for outcome in report.outcomes) else SAME


def _write_markdown(report: RunReport, output: str | None) -> None:
    from pytest_fxgraph.draw.run_markdown import run_markdown

    text = run_markdown(report)
    if output is None:
        print_lines(text.rstrip("\n").split("\n"))
        return
    write_whole(Path(output), text, "report", shown_as=output)
    print_lines([f"wrote the report {output}: {report.summary or 'no golden was compared'}"])


def merged_report(reports: Sequence[RunReport]) -> RunReport:
    """Return one report of all shards. Unused goldens are judged over all shards together."""
    outcomes = tuple(outcome for report in reports for outcome in report.outcomes)
    unused = unused_goldens([report.record for report in reports])
    return RunReport(
        counted_goldens(results_of(outcomes).values(), len(unused)),
        reports[0].record,
        outcomes,
        unused,
        tuple(dict.fromkeys(section for report in reports for section in report.sections)),
        tuple(failure for report in reports for failure in report.failures),
        environment=dict(set.intersection(*(set(report.environment.items()) for report in reports))),
    )


def _print_unused(options: argparse.Namespace) -> int:
    if options.output is not None:
        raise ReportError(
            f"cannot write the report {options.output}: --unused prints names; leave -o out, or redirect the output"
        )
    records = [read_record(path) for path in options.reports]
    records = records or [_record_of_disk(golden_layout_here(options.golden_dir))]
    unused = [golden for golden in unused_goldens(records) if not is_received(PurePosixPath(golden))]
    print_answer(options, unused, unused)
    return DIFFERENT if unused else SAME


def _record_of_disk(layout: GoldenLayout) -> RunRecord:
    """Return the facts that need no run: the goldens on disk, and the test files that are gone."""
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
