"""A replay as a report of a run, so that the pages and texts of such reports show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.replay.comparison import ChangedGraph, Replay
from pytest_fxgraph.replay.findings import SORTS, Findings
from pytest_fxgraph.report.change_data import change_data, edit_data
from pytest_fxgraph.report.clusters import cluster_key
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import first_lines
from pytest_fxgraph.report.run_record import RunRecord
from pytest_fxgraph.report.text import full_section, headline

_MOST_GRAPHS = 200  # changed graphs with their texts, for pictures
_MOST_PLACES = 20


def report_of(findings: Findings) -> RunReport:
    """Return the report: an outcome for each changed graph, and a section for each other finding."""
    replay = findings.replay
    sections = ["\n".join(each.lines()) for sort in SORTS if sort != "edit" for each in findings.of_sort(sort)]
    remarks = "\n".join(findings.remarks()).strip()
    return RunReport(
        findings.summary,
        RunRecord(had_path_arguments=True, finished=not findings.unknown),
        [*_outcomes(replay)],
        sections=[*sections, *([remarks] if remarks else [])],
        environment=environments(replay),
        accept="",
        title="Replay",
        noun="graph",
        page_option="fxgraph replay -o x.html",
    )


def data_of(findings: Findings, unexpected: object) -> dict[str, object]:
    """Return the whole answer as values that JSON can hold."""
    replay = findings.replay
    return {
        "summary": findings.summary,
        "tests": replay.tests,
        "graphs": replay.graphs,
        "same": replay.same,
        "findings": findings.found,
        "unexpected": unexpected,
        "unknown": findings.unknown,
        "unseeded": findings.unseeded,
        "left_out": [each for test in replay.after.tests.values() for each in test.left_out],
        "environment": environments(replay),
    }


def places_of_tests(replay: Replay) -> dict[str, tuple[str, int]]:
    """Map each test to the line that asked for its first changed graph, for annotations."""
    places: dict[str, tuple[str, int]] = {}
    for changed in replay.changed.values():
        file, _, line = changed.places[0].record.line.rpartition(":")
        if line.isdecimal():
            places.setdefault(changed.places[0].test, (file, int(line)))
    return places


def environments(replay: Replay) -> Mapping[str, str]:
    """Return the facts of both runs; a fact that differs has both values."""
    before, after = _environment(replay.before), _environment(replay.after)
    told = {name: (before.get(name, "unknown"), after.get(name, "unknown")) for name in {**before, **after}}
    return {name: old if old == new else f"{old} -> {new}" for name, (old, new) in told.items()}


def _environment(recording: Recording) -> dict[str, str]:
    return {name: value for run in recording.runs for name, value in run.environment.items()}


def _outcomes(replay: Replay) -> Iterator[Outcome]:
    for number, changed in enumerate(replay.changed.values()):
        documents = replay.documents(changed)
        yield _outcome(changed, documents, replay.texts(changed) if number < _MOST_GRAPHS else ())


def _outcome(changed: ChangedGraph, documents: tuple[GraphDocument, GraphDocument], texts: tuple[str, ...]) -> Outcome:
    difference, first = changed.difference, changed.places[0]
    cluster = cluster_key(difference, changed.after)
    further = first_lines([f"  {place}" for place in changed.places[1:]], _MOST_PLACES, "  and {} more")
    section = full_section(difference, *documents, golden="the graph")
    return Outcome(
        nodeid=first.test,
        golden=f"{first} #{first.record.order + 1}",
        level=difference.level,
        status="mismatch",
        headline=headline(difference),
        section="\n".join([section, *(["", "the same graph in", *further] if further else [])]),
        cluster=cluster,
        changes=change_data(difference, cluster),
        edits=edit_data(difference),
        graphs=texts,
    )
