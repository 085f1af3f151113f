"""`fxgraph replay`: say in words what a change does to every graph of a suite."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_output, plain_data, print_answer, tell
from pytest_fxgraph.errors import RecordingError, ReportError
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.comparison import compare_recordings
from pytest_fxgraph.replay.findings import Findings, findings_of
from pytest_fxgraph.replay.recorded_trees import RecordedTrees, Suite, cache_folder
from pytest_fxgraph.replay.reports import data_of, places_of_tests, report_of
from pytest_fxgraph.replay.revisions import Repository

_FORMS = (".html", ".md", ".json")

HELP = "say what a change does to every graph of a test suite"
DESCRIPTION = (
    "Runs the tests of the base, a commit, and the tests here, and compares all graphs that both runs made. The "
    "checkout stays as it is. The exit status is 0 if nothing changed, 1 if something changed, 2 if it cannot be told. "
    "Arguments of pytest follow `--`."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "base",
        metavar="BASE",
        nargs="?",
        help="a revision; default: the commit at which the checkout left the default branch. With --against: a "
        "recording of the change, in place of a run here",
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--against", metavar="RECORDING", help="compare with what pytest --fx-record-seeded recorded")
    other.add_argument("--python", metavar="PYTHON", help="compare a run here with a run here by this interpreter")
    expected = parser.add_mutually_exclusive_group()
    expected.add_argument("--expect", choices=("same",), help="new tests are right, every other change is wrong")
    expected.add_argument(
        "--expect-edit",
        metavar="PATTERN",
        action="append",
        help="edits whose words match, as `*gelu*` does, are right, and new tests; every other change is wrong",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", action="append", default=[], help="write a report, a .html, .md or .json"
    )
    add_recording_options(parser)
    add_output(parser)


def add_recording_options(parser: Any) -> None:
    """Add the options of commands that record trees."""
    parser.add_argument(
        "--copy",
        metavar="PATTERN",
        action="append",
        default=[],
        help="give these files, which git ignores, to trees of other commits, for example generated code",
    )
    parser.add_argument("--timeout", metavar="SECONDS", type=float, help="the longest time of one run")
    parser.add_argument("--fresh", action="store_true", help="record again what was recorded before")


def recorded_trees(options: argparse.Namespace, arguments: Sequence[str] = ()) -> tuple[RecordedTrees, Repository]:
    """Return the trees of the repository around this folder, and the repository. pytest gets `arguments` first."""
    here = Path.cwd().resolve()
    repository = Repository.around(here)
    suite = Suite(repository, here, [*arguments, *options.arguments], options.copy, options.timeout)
    return RecordedTrees(suite, cache_folder(), tell, is_fresh=options.fresh), repository


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    for path in options.output:
        if not path.endswith(_FORMS):
            raise ReportError(f"cannot write the report {path}: give a name that ends in {', '.join(_FORMS)}")
    with _both_recordings(options) as (before, after):
        findings = findings_of(compare_recordings(before, after))
        expected = None if options.expect is None and options.expect_edit is None else options.expect_edit or ()
        unexpected = None if expected is None else findings.unexpected(expected)
        lines = [*findings.lines(), *([""] if unexpected else []), *(unexpected or [])]
        print_answer(options, data_of(findings, unexpected), lines)
        _write_reports(findings, unexpected, options.output)
    if findings.unknown:
        return FAILED
    is_same = not findings.found if unexpected is None else not unexpected
    return SAME if is_same else DIFFERENT


@contextmanager
def _both_recordings(options: argparse.Namespace) -> Iterator[tuple[Recording, Recording]]:
    """Yield the recordings of the base and of the change, recorded if need be."""
    if options.against is not None:
        before = Recording.read(RecordingStore(options.against))
        if options.base is not None:
            if options.arguments:
                raise RecordingError(
                    f"cannot give arguments to pytest: {options.against} and {options.base} are recordings, and no "
                    "test runs; leave the arguments out"
                )
            yield before, Recording.read(RecordingStore(options.base))
            return
        trees, _ = recorded_trees(options)
        with trees.of_checkout() as after:
            yield before, after
        return
    trees, repository = recorded_trees(options)
    if options.python is not None:
        if options.base is not None:
            raise RecordingError(
                f"cannot compare with {options.base} and with {options.python} at once: --python compares two "
                "environments at one commit; leave one of the two out"
            )
        trees.interpreter(options.python)  # before the first run, which may take long
        with trees.of_checkout() as before, trees.of_checkout(options.python) as after:
            yield before, after
        return
    if options.base is None:
        commit, branch = repository.merge_base()
        tell(f"the base is the merge base with {branch}")
    else:
        commit = repository.commit(options.base)
    if not repository.is_changed(commit):
        tell(f"the checkout is the base itself, {repository.title(commit)}; name another base to see a change")
    before = trees.of_commit(commit)
    with trees.of_checkout() as after:
        yield before, after


def _write_reports(findings: Findings, unexpected: Sequence[str] | None, paths: Sequence[str]) -> None:
    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    if not paths and not on_github:
        return
    from pytest_fxgraph.goldens.store import write_whole

    report = report_of(findings)
    for path in paths:
        if path.endswith(".json"):
            import json

            text = json.dumps(plain_data(data_of(findings, unexpected)), indent=1) + "\n"
        elif path.endswith(".md"):
            from pytest_fxgraph.draw.run_markdown import run_markdown

            text = run_markdown(report)
        else:
            from pytest_fxgraph.draw.run_page import run_page

            text = run_page(report, Path.cwd())
        write_whole(Path(path), text, "report", shown_as=path)
        tell(f"wrote the report {path}")
    if on_github:
        from pytest_fxgraph.gate import build_service
        from pytest_fxgraph.report.annotations import Folders, annotations_of_run, github_commands

        if build_service.append_job_summary(report) is not None:
            tell("added the report to the job summary")
        folders = Folders(Path.cwd(), Path.cwd(), build_service.top_folder(Path.cwd()))
        if unexpected is None or unexpected:
            for command in github_commands(
                annotations_of_run(report, places_of_tests(findings.replay), folders, by_cause=True)
            ):
                print(command)  # as it is: GitHub obeys it
