"""`fxgraph bisect`: find the commit, the environment or the flags that changed the graphs of a test."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_output, print_json, print_lines, tell
from pytest_fxgraph.command.replay import add_recording_options, recorded_trees
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recorder.config_flags import arguments_for, check_flags, read_flags
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.replay.bisection import Found, first_changed_commit, first_changed_of, smallest_set
from pytest_fxgraph.replay.comparison import compare_recordings
from pytest_fxgraph.replay.findings import Findings, findings_of
from pytest_fxgraph.replay.recorded_trees import RecordedTrees
from pytest_fxgraph.replay.revisions import Repository
from pytest_fxgraph.report.printable import listed

_MOST_NAMED = 8

HELP = "find the commit, the environment or the flags that changed the graphs of a test"
DESCRIPTION = (
    "Records the tests at few of the commits between GOOD and BAD, or with few of the interpreters, and names the "
    "first with other graphs. With --config, it names the smallest set of flags that changes the graphs here, or at "
    "GOOD. The checkout stays as it is. The exit status is 1 if a change was found, 0 if the graphs are the same at "
    "both ends, 2 if it cannot be told. The tests follow `--`."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("good", metavar="GOOD", nargs="?", help="a revision with the graphs of before")
    parser.add_argument("bad", metavar="BAD", nargs="?", help="a later revision; default: HEAD")
    parser.add_argument(
        "--python",
        metavar="PYTHON",
        action="append",
        default=[],
        help="in place of revisions: interpreters, the one with the graphs of before first",
    )
    parser.add_argument(
        "--torch",
        metavar="FIRST..LAST",
        help="in place of revisions: minor releases of torch, as 2.9..2.14; --python is then one path with {} for the "
        "release, and the interpreters that exist are taken",
    )
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="in place of BAD: search this flag of torch's compiler; @FILE has one flag a line",
    )
    add_recording_options(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    pythons = [] if options.config else _interpreters(options)
    if not options.config and bool(pythons) is (options.good is not None):
        raise RecordingError(
            "cannot bisect: give either a revision GOOD, or at least two interpreters with --python, or flags with "
            "--config; add tests after --"
        )
    trees, repository = recorded_trees(options)
    with ExitStack() as recordings:
        if options.config:
            found = _of_flags(options, repository, recordings)
        elif pythons:
            found = _of_interpreters(trees, pythons, recordings)
        else:
            found = _of_commits(trees, repository, options.good, options.bad or "HEAD")
        name = str if options.config or pythons else repository.title
        return _tell_found(found, name, options)


def _of_commits(trees: RecordedTrees, repository: Repository, good: str, bad: str) -> Found:
    first, last = repository.commit(good), repository.commit(bad)
    before = trees.of_commit(first)

    def compare(commit: str) -> Findings:
        return _compared(before, trees.of_commit(commit), repository.title(commit))

    return first_changed_commit(repository, first, last, compare)


def _of_interpreters(trees: RecordedTrees, pythons: Sequence[str], recordings: ExitStack) -> Found:
    before = recordings.enter_context(trees.of_checkout(pythons[0]))

    def compare(python: str) -> Findings:
        return _compared(before, recordings.enter_context(trees.of_checkout(python)), python)

    return first_changed_of(pythons, compare)


def _of_flags(options: argparse.Namespace, repository: Repository, recordings: ExitStack) -> Found:
    flags = read_flags(options.config)
    if not flags or options.bad or options.torch or len(options.python) > 1:
        raise RecordingError(
            "cannot search flags: give flags, at most one revision and at most one --python, and leave out --torch"
        )
    python = [*options.python, sys.executable][0]
    commit = repository.commit(options.good) if options.good else None
    check_flags(flags, python)

    def record(chosen: Sequence[str]) -> Recording:
        trees, _ = recorded_trees(options, arguments_for(chosen))
        if commit is not None:
            return trees.of_commit(commit, python)
        return recordings.enter_context(trees.of_checkout(python))

    before = record(())
    return smallest_set(flags, lambda chosen: _compared(before, record(chosen), listed(chosen, _MOST_NAMED)))


def _compared(before: Recording, after: Recording, name: str) -> Findings:
    """Compare graphs. Tests that one of two revisions lacks have nothing to say about a graph."""
    findings = findings_of(compare_recordings(before, after))
    if findings.unknown or not findings.replay.tests:
        raise RecordingError(f"cannot compare {name}: {'; '.join(findings.unknown) or 'it has none of the tests'}")
    tell(f"{name}: {findings.summary}")
    telling = [each for each in findings.found if each.sort not in ("new test", "vanished test", "outcome")]
    return Findings(findings.replay, telling, findings.unknown)


def _tell_found(found: Found, name: Callable[[str], str], options: argparse.Namespace) -> int:
    if options.json:
        print_json({"first": found.first or None, "between": found.between, "findings": found.findings.found})
    elif not found.first:
        print_lines(["the graphs are the same at both ends: there is nothing to find"], options.color)
    else:
        words = f"the graphs {'change with' if options.config else 'changed first in'} {name(found.first)}"
        if found.between:
            before = "or with fewer, in a set" if options.config else "or before, in one"
            words += f", {before} that has no recording: {listed(map(name, found.between), _MOST_NAMED)}"
        print_lines([words, "", *found.findings.lines()], options.color)
    if found.between:
        return FAILED
    return DIFFERENT if found.first else SAME


def _interpreters(options: argparse.Namespace) -> list[str]:
    """Return the interpreters to search, in order. Raises RecordingError if they are fewer than two."""
    pythons: list[str] = options.python
    if options.torch is not None:
        if len(pythons) != 1 or "{}" not in pythons[0]:
            raise RecordingError(
                "cannot choose the interpreters for --torch: give one --python with {} for the release, as "
                "--python envs/torch-{}/bin/python"
            )
        tried = [pythons[0].replace("{}", release) for release in _releases(options.torch)]
        pythons = [python for python in tried if Path(python).exists()]
        tell(f"interpreters: {', '.join(pythons) or 'none'}, of {len(tried)} releases")
    if (options.torch is not None or pythons) and len(pythons) < 2:
        raise RecordingError("cannot bisect interpreters: there are fewer than two; give --python again, or make them")
    return pythons


def _releases(span: str) -> Iterator[str]:
    first, dots, last = span.partition("..")
    ends = [end.split(".") for end in (first, last)]
    if not dots or any(len(end) != 2 or not all(part.isdecimal() for part in end) for end in ends):
        raise RecordingError(f"cannot read the releases {span}: give the first and the last as 2.9..2.14")
    (major, minor), (last_major, last_minor) = ((int(part) for part in end) for end in ends)
    if major != last_major:
        raise RecordingError(f"cannot read the releases {span}: both have one number before the dot; give 2.9..2.14")
    yield from (f"{major}.{number}" for number in range(minor, last_minor + 1))
