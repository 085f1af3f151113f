"""The findings of a replay, each with all its places: the edits, and whatever else differs between the recordings."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from pytest_fxgraph.compare.difference import Edit
from pytest_fxgraph.replay.comparison import ChangedFact, ChangedGraph, Replay
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.clusters import cause_parts
from pytest_fxgraph.report.edit_text import describe_edit
from pytest_fxgraph.report.graph_diff import GraphDiff, places_of
from pytest_fxgraph.report.printable import counted, first_lines, listed, printable
from pytest_fxgraph.report.text import headline, lines_of_edit

_MOST_PLACES = 5  # of a finding, in text
_MOST_DIFFS = 40
# Sort of a finding to its noun, in the order in which findings are told.
SORTS = {
    "edit": "edit",
    "new graph": "new graph",
    "vanished graph": "vanished graph",
    "fact": "changed fact",
    "outcome": "other outcome",
    "left out": "change of left-out graphs",
    "vanished test": "vanished test",
    "new test": "new test",
}


@dataclass
class Finding:
    """One change between two recordings, with all tests or graphs in which it is."""

    sort: str  # a key of SORTS
    words: str
    title: str = ""  # the words with the places within a graph, if all graphs have the same
    places: list[str] = field(default_factory=list)
    diff: list[str] = field(default_factory=list)  # of the first graph

    def lines(self) -> list[str]:
        """Return the finding as text."""
        is_of_graphs = self.sort in ("edit", "fact")
        where = [f"  in {counted(len(self.places), 'graph')}:"] if is_of_graphs else []
        places = first_lines([f"    {place}" for place in self.places], _MOST_PLACES, "    and {} more")
        head = f"{SORTS[self.sort]}: {clipped(self.title or self.words)}"
        return [head, *where, *places, *(f"  {line}" for line in self.diff)]


@dataclass(frozen=True)
class Findings:
    """All that a replay tells."""

    replay: Replay
    found: Sequence[Finding]
    unknown: Sequence[str]  # the reasons why the replay cannot tell; empty for a whole answer

    @property
    def summary(self) -> str:
        """The findings in one line."""
        replay = self.replay
        changed = sum(len(each.places) for each in replay.changed.values())
        told = [f"{replay.same:,} same"]
        for sort, noun in SORTS.items():
            number = sum(len(each.places) if sort not in ("edit", "fact") else 1 for each in self.of_sort(sort))
            if number:
                inside = f" in {counted(changed, 'graph')}" if sort == "edit" else ""
                told.append(f"{counted(number, noun)}{inside}")
        return f"{_counted(replay.tests, 'test')}, {_counted(replay.graphs, 'graph')}: {', '.join(told)}"

    @property
    def unseeded(self) -> list[str]:
        """The sides with a run that seeded no test."""
        sides = ("the base", self.replay.before), ("the change", self.replay.after)
        return [name for name, recording in sides if not all(run.seeded for run in recording.runs)]

    def of_sort(self, sort: str) -> list[Finding]:
        """Return the findings of one sort."""
        return [each for each in self.found if each.sort == sort]

    def unexpected(self, expected: Collection[str]) -> list[str]:
        """Return a sentence for each finding that no pattern expects, and for each pattern without an edit.

        New tests are expected: they have nothing to be compared with.
        """
        edits = self.of_sort("edit")
        matching: dict[str, set[int]] = {}
        for pattern in expected:
            named = (each for each in edits if fnmatchcase(each.words, pattern) or fnmatchcase(each.title, pattern))
            matching[pattern] = {id(each) for each in named}
        allowed = set().union(*matching.values())
        told = [
            f"not expected: {SORTS[each.sort]}: {clipped(each.words)}"
            for each in self.found
            if each.sort != "new test" and id(each) not in allowed
        ]
        return told + [f"expected, and not found: {pattern}" for pattern, found in matching.items() if not found]

    def lines(self) -> Iterator[str]:
        """Yield the whole answer as text."""
        yield self.summary
        for each in self.found:
            yield ""
            yield from each.lines()
        yield from self.remarks()

    def remarks(self) -> Iterator[str]:
        """Yield the lines on graphs that were not compared."""
        left_out = [each for test in self.replay.after.tests.values() for each in test.left_out]
        if left_out:
            reasons = list(dict.fromkeys(f"{each.kind} {each.model}: {clipped(each.reason)}" for each in left_out))
            yield ""
            yield f"{counted(len(left_out), 'graph')} of the change could not be kept, so nothing was compared there:"
            yield from first_lines([f"    {printable(each)}" for each in reasons], _MOST_PLACES, "    and {} more")
        for name, recording in (("base", self.replay.before), ("change", self.replay.after)):
            if recording.disagreeing:
                yield ""
                yield (
                    f"{counted(len(recording.disagreeing), 'test')} made other graphs, or ended otherwise, in several "
                    f"processes of the {name}; the last one was compared:"
                )
                yield from first_lines(
                    [f"    {each}" for each in recording.disagreeing], _MOST_PLACES, "    and {} more"
                )
        if self.found and self.unseeded:
            yield ""
            yield (
                f"the tests of {listed(self.unseeded, 2, ' and ')} began without a seed: graphs that depend on drawn "
                "values differ; record with pytest --fx-record FOLDER --fx-record-seeded"
            )
        if self.unknown:
            yield ""
            yield from self.unknown


def findings_of(replay: Replay) -> Findings:
    """Return the findings of a comparison, the edit of most graphs first."""
    others: dict[tuple[str, str], Finding] = {}
    for sort, words, place in _others(replay):
        others.setdefault((sort, words), Finding(sort, words)).places.append(place or "(outside any test)")
    return Findings(replay, [*_edits(replay), *others.values()], [*_unknown(replay)])


def _others(replay: Replay) -> Iterator[tuple[str, str, str]]:
    """Yield sort, words and place of each change but the edits."""
    for sort, places in (("new graph", replay.new), ("vanished graph", replay.vanished)):
        for place in places:
            yield sort, f"{place.record.kind} {place.record.model}", str(place)
    for fact in replay.facts:
        yield "fact", _fact_words(fact), str(fact.place)
    for test, old, new in replay.other_outcomes:
        yield "outcome", f"{old or 'cut off'} -> {new or 'cut off'}", test
    for each in replay.left_out:
        numbers = f"{each.before} -> {each.after}"
        yield "left out", f"{each.kind} {each.model}: {numbers} ({clipped(each.reason)})", each.test
    yield from (("vanished test", "in the base alone", test) for test in replay.vanished_tests)
    yield from (("new test", "in the change alone", test) for test in replay.new_tests)


def _unknown(replay: Replay) -> Iterator[str]:
    for name, recording in (("base", replay.before), ("change", replay.after)):
        if recording.cut_off:
            number = counted(len(recording.cut_off), "process").replace("processs", "processes")
            yield (
                f"cannot tell the rest: the run of the {name} was cut off in {number}; its output may name the reason; "
                "record the run again"
            )
    if not replay.graphs and not replay.new_tests:
        yield "cannot tell: neither run made a graph that was kept; give tests that run a model"


def _edits(replay: Replay) -> list[Finding]:
    found: dict[object, Finding] = {}
    firsts: dict[object, tuple[ChangedGraph, Edit | None]] = {}
    key: object
    for changed in replay.changed.values():
        difference = changed.difference
        edits: list[Edit | None] = [*difference.edits, *([None] if difference.rest or difference.omitted else [])]
        for edit in edits:
            if edit is None:
                others = replace(difference, changes=difference.rest, edits=())
                key, words, title = ("rest", *cause_parts(others, changed.after)), headline(others), ""
            else:
                key, words, title = edit.key or (edit.kind, edit.text), edit.text, describe_edit(edit)
            finding = found.setdefault(key, Finding("edit", words, title))
            finding.title = title if finding.title == title else ""
            finding.places += map(str, changed.places)
            firsts.setdefault(key, (changed, edit))
    ordered = sorted(found, key=lambda key: -len(found[key].places))
    for key in ordered[:_MOST_DIFFS]:
        found[key].diff = _diff(replay, *firsts[key])
    return [found[key] for key in ordered]


def _diff(replay: Replay, changed: ChangedGraph, edit: Edit | None) -> list[str]:
    """Return the lines of both graphs around an edit at its first place, or around the first change without an edit."""
    diff = GraphDiff(*replay.documents(changed))
    if edit is not None:
        return diff.hunks(lines_of_edit(edit))
    hunks = (diff.hunks(places_of(change)) for change in changed.difference.rest)
    return next(filter(None, hunks), [])


def _fact_words(changed: ChangedFact) -> str:
    kind, before, after = changed.place.record.kind, changed.before, changed.after
    if isinstance(before, list) and isinstance(after, list):
        sides = [[each for each in one if each not in other] for one, other in ((before, after), (after, before))]
        before, after = sides if any(sides) else (before, after)
    return f"{changed.name} of {kind}: {_fact(before)} -> {_fact(after)}"


def _fact(value: object) -> str:
    return clipped(json.dumps(value, ensure_ascii=False) if value not in (None, []) else "none")


def _counted(number: int, noun: str) -> str:
    return counted(number, noun).replace(str(number), f"{number:,}")
