"""Differences at the lines of the model's source: GitHub's annotations, and GitLab's report of code quality."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import first_lines, printable, printable_line

# GitHub shows this many errors per step, and drops the rest silently.
MOST_ON_GITHUB = 10
_MOST_NAMES = 5
_LONGEST_TITLE = 120
_LONGEST_MESSAGE = 4_000

Place = tuple[str, int]  # a file, relative to the top of the repository, with slashes; and a line, counted from 1


@dataclass(frozen=True)
class Folders:
    """The absolute folders that the paths of a run are relative to."""

    started_in: Path  # base of the model's source lines
    rootdir: Path  # base of test files
    top: Path  # base of annotations: the checked-out repository

    def place(self, file: str, line: int, base: Path) -> Place | None:
        """Return a place in the repository. Return None for a file that is absent or outside the repository."""
        path = os.path.realpath(base / file)
        if not os.path.isfile(path):
            return None
        try:
            inside = os.path.relpath(path, os.path.realpath(self.top)).replace(os.sep, "/")
        except ValueError:  # on another drive
            return None
        return None if inside.startswith("../") else (inside, max(line, 1))


@dataclass(frozen=True)
class Annotation:
    """A message at a line."""

    check: str  # sort of check: "golden", "equivalence", "capture"
    title: str
    lines: tuple[str, ...]
    place: Place | None
    key: str  # identifies the same finding in every run


def annotations_of_run(
    report: RunReport, test_places: Mapping[str, Place], folders: Folders, *, by_cause: bool
) -> list[Annotation]:
    """Return an annotation for each golden that failed, or for each cause, and for each failure of a numeric check.

    An annotation stands at the model's line that made the first difference, or at the test if the line is not known.
    """
    causes = {outcome.golden: cause for cause in report.failed_by_cause() for outcome in cause}
    found: dict[object, list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.has_failed:
            source = _source_place(outcome, folders)
            key = (outcome.cluster, source) if by_cause and outcome.cluster else outcome.golden
            found.setdefault(key, []).append(outcome)
    told = []
    for group in sorted(found.values(), key=lambda group: -len(group)):
        place = _source_place(group[0], folders) or _test_place(group[0].nodeid, test_places, folders)
        commands = report.commands_for(causes[group[0].golden] if len(group) > 1 else group)
        told.append(_of_goldens(group, place, commands, report.noun))
    return [*told, *(_of_failure(each, test_places, folders) for each in report.failures)]


def github_commands(found: Sequence[Annotation]) -> Iterator[str]:
    """Yield a workflow command per annotation, as many as GitHub shows, and a command that counts the rest."""
    for annotation in found[:MOST_ON_GITHUB]:
        place = {} if annotation.place is None else {"file": annotation.place[0], "line": str(annotation.place[1])}
        yield _command("error", {**place, "title": annotation.title}, "\n".join(annotation.lines))
    rest = len(found) - MOST_ON_GITHUB
    if rest > 0:
        message = f"{rest} more differences of graphs have no annotation; the job summary and the log have all"
        yield _command("notice", {"title": "pytest-fxgraph"}, message)


def code_quality_text(found: Sequence[Annotation]) -> str:
    """Return a report of code quality as GitLab reads it, without annotations outside the repository."""
    entries = [
        {
            "description": printable_line(f"{annotation.title}: {'; '.join(annotation.lines)}"),
            "check_name": f"fxgraph-{annotation.check}",
            "fingerprint": hashlib.sha256(annotation.key.encode("utf-8", "surrogatepass")).hexdigest(),
            "severity": "major",
            "location": {"path": annotation.place[0], "lines": {"begin": annotation.place[1]}},
        }
        for annotation in found
        if annotation.place is not None
    ]
    return json.dumps(entries, indent=1) + "\n"


def _of_goldens(group: Sequence[Outcome], place: Place | None, commands: Mapping[str, str], noun: str) -> Annotation:
    first = group[0]
    names = list(dict.fromkeys(outcome.golden for outcome in group))
    if len(names) == 1:
        title, lines = f"{noun} {names[0]}", [first.headline]
    else:
        title = f"{len(names)} {noun}s differ in the same way"
        lines = [first.headline, *first_lines(names, _MOST_NAMES)]
    lines += [f"accept{f' {words}' if words else ''} with: {command}" for command, words in commands.items()]
    return Annotation("golden", title, tuple(lines), place, f"{first.golden} {first.status} {first.cluster}")


def _of_failure(failure: NumericFailure, test_places: Mapping[str, Place], folders: Folders) -> Annotation:
    lines_of_path = (step.source for step in failure.path if step.source and step.status != "agrees")
    source = failure.source or next(lines_of_path, "")
    place = _place_of_text(source, folders) or _test_place(failure.nodeid, test_places, folders)
    lines = (failure.headline, *failure.section.split("\n")[1:])
    return Annotation(failure.check, failure.nodeid, lines, place, f"{failure.nodeid} {failure.headline}")


def _source_place(outcome: Outcome, folders: Folders) -> Place | None:
    explained = [outcome.changes[position] for edit in outcome.edits for position in edit["changes"]]
    for change in (*explained, *outcome.changes):
        if change.get("file") and change.get("line"):
            return folders.place(str(change["file"]), int(change["line"]), folders.started_in)
    return None


def _place_of_text(source: str, folders: Folders) -> Place | None:
    file, _, line = ":".join(source.split(":")[:2]).rpartition(":")
    return folders.place(file, int(line), folders.started_in) if file and line.isdecimal() else None


def _test_place(nodeid: str, test_places: Mapping[str, Place], folders: Folders) -> Place | None:
    place = test_places.get(nodeid)
    return None if place is None else folders.place(*place, folders.rootdir)


def _command(name: str, properties: Mapping[str, str], message: str) -> str:
    """Write a workflow command. Its texts are escaped, so that no text ends the command or begins another."""
    texts = {key: _escaped(clipped(printable_line(text), _LONGEST_TITLE)) for key, text in properties.items()}
    told = ",".join(f"{key}={text}".replace(":", "%3A").replace(",", "%2C") for key, text in texts.items())
    shortened = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]} ..."
    return f"::{name} {told}::{_escaped(printable(shortened))}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
