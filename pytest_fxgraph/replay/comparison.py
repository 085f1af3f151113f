"""The comparison of two recordings: test by test, and within a test graph by graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import document_of
from pytest_fxgraph.document.model import GraphDocument, YamlDataError, with_inner_graphs
from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.recordings.recording import RecordedTest, Recording
from pytest_fxgraph.recordings.records import GraphRecord
from pytest_fxgraph.recordings.store import RecordingStore

_FLOATS = re.compile(r"b?float|complex")
_MOST_ALIGNED = 500  # graphs of a test that are aligned by content; their time grows by the square


class Place(NamedTuple):
    """A graph of a test."""

    test: str
    record: GraphRecord

    def __str__(self) -> str:
        return f"{self.test or '(outside any test)'} ({self.record.kind} {self.record.model})"


@dataclass(frozen=True)
class ChangedGraph:
    """Two different graphs, one in place of the other, with all tests that made them."""

    before: str  # the hash of the graph in its recording
    after: str
    difference: Difference
    places: list[Place] = field(default_factory=list)


class ChangedFact(NamedTuple):
    """A fact of a compilation that changed, such as its breaks."""

    place: Place
    name: str
    before: object
    after: object


class ChangedCount(NamedTuple):
    """Another number of graphs of a test that could not be kept."""

    test: str
    kind: str
    model: str
    before: int
    after: int
    reason: str


@dataclass
class Replay:
    """The result of a comparison of two recordings."""

    before: Recording
    after: Recording
    tests: int = 0  # in both
    same: int = 0  # graphs
    changed: dict[tuple[str, str], ChangedGraph] = field(default_factory=dict)  # by the hashes of both graphs
    new: list[Place] = field(default_factory=list)
    vanished: list[Place] = field(default_factory=list)
    facts: list[ChangedFact] = field(default_factory=list)
    left_out: list[ChangedCount] = field(default_factory=list)
    new_tests: list[str] = field(default_factory=list)
    vanished_tests: list[str] = field(default_factory=list)
    other_outcomes: list[tuple[str, str, str]] = field(default_factory=list)  # test, outcome before, outcome after

    @property
    def graphs(self) -> int:
        """The number of graphs of tests that are in both recordings."""
        changed = sum(len(each.places) for each in self.changed.values())
        return self.same + changed + len(self.new) + len(self.vanished)

    def documents(self, changed: ChangedGraph) -> tuple[GraphDocument, GraphDocument]:
        """Read both graphs as they are compared.

        They are not held, because a recording may have more than fit into memory.
        """
        return _document(self.before.store, changed.before), _document(self.after.store, changed.after)

    def texts(self, changed: ChangedGraph) -> tuple[str, str]:
        """Read the texts of both graphs."""
        return self.before.store.text(changed.before), self.after.store.text(changed.after)


def compare_recordings(before: Recording, after: Recording) -> Replay:
    """Compare two recordings at level `structure`."""
    replay = Replay(before, after)
    same: set[tuple[str, str]] = set()  # other hash and no difference
    for test, obtained in after.tests.items():
        expected = before.tests.get(test)
        if expected is None:
            replay.new_tests.append(test)
            continue
        replay.tests += test != ""
        for old, new in _paired(expected.graphs, obtained.graphs):
            if old is None or new is None:
                replay.new += [Place(test, new)] if new is not None else []
                replay.vanished += [Place(test, old)] if old is not None else []
                continue
            _compare_graphs(replay, same, Place(test, new), old)
        replay.left_out += _changed_counts(test, expected, obtained)
        if expected.outcome != obtained.outcome:
            replay.other_outcomes.append((test, expected.outcome, obtained.outcome))
    replay.vanished_tests += [test for test in before.tests if test not in after.tests]
    return replay


def _compare_graphs(replay: Replay, same: set[tuple[str, str]], place: Place, old: GraphRecord) -> None:
    new = place.record
    names = {**old.facts, **new.facts} if old.facts != new.facts else {}
    for name in names:
        values = old.facts.get(name), new.facts.get(name)
        replay.facts += [ChangedFact(place, name, *values)] if values[0] != values[1] else []
    hashes = old.graph, new.graph
    if old.graph != new.graph and hashes not in same and hashes not in replay.changed:
        changed = ChangedGraph(*hashes, Difference(""))
        difference = compare_documents(*replay.documents(changed))
        if difference.is_empty:
            same.add(hashes)
        else:  # without the records and documents: 110 kB for a graph of 62 nodes, of 20,000 graphs 2 GB
            small = replace(difference, records=({}, {}), alignment=None)
            replay.changed[hashes] = replace(changed, difference=small)
    if hashes in replay.changed:
        replay.changed[hashes].places.append(place)
    else:
        replay.same += 1


def _document(store: RecordingStore, graph: str) -> GraphDocument:
    try:
        return _as_compared(document_of(store.text(graph)))
    except YamlDataError as error:
        raise RecordingError(
            f"cannot read the graph {graph} of {store.place}: {error.reason}; make both recordings with this release "
            "of pytest-fxgraph"
        ) from None


def _as_compared(document: GraphDocument) -> GraphDocument:
    """Return a graph without the values of constant tensors of floats.

    Few tests set a seed: a weight that a trace took for a constant has other values in each run.
    """
    state = [
        record._replace(content=None) if record.kind == "constant" and _FLOATS.match(record.value) else record
        for record in document.state
    ]
    return replace(with_inner_graphs(document, _as_compared), state=tuple(state))


def _changed_counts(test: str, before: RecordedTest, after: RecordedTest) -> Iterator[ChangedCount]:
    counts = [Counter((each.kind, each.model) for each in side.left_out) for side in (before, after)]
    reasons = {(each.kind, each.model): each.reason for each in (*before.left_out, *after.left_out)}
    for key, reason in reasons.items():
        if counts[0][key] != counts[1][key]:
            yield ChangedCount(test, *key, counts[0][key], counts[1][key], reason)


Pair = tuple[GraphRecord | None, GraphRecord | None]


def _paired(before: Sequence[GraphRecord], after: Sequence[GraphRecord]) -> Iterator[Pair]:
    """Pair the graphs of a test: equal graphs in their order, and between them the graphs of one kind and model."""
    old, new = [_content(each) for each in before], [_content(each) for each in after]
    first, last = 0, 0
    shorter = min(len(old), len(new))
    while first < shorter and old[first] == new[first]:
        first += 1
    while last < shorter - first and old[-1 - last] == new[-1 - last]:
        last += 1
    old_end, new_end = len(old) - last, len(new) - last
    yield from zip(before[:first], after[:first], strict=True)
    if max(old_end, new_end) - first > _MOST_ALIGNED:
        yield from _paired_by_model(before[first:old_end], after[first:new_end])
    else:
        matcher = SequenceMatcher(None, old[first:old_end], new[first:new_end], False)
        for tag, *ends in matcher.get_opcodes():
            start, end, new_start, new_stop = (first + each for each in ends)
            if tag == "equal":
                yield from zip(before[start:end], after[new_start:new_stop], strict=True)
            else:
                yield from _paired_by_model(before[start:end], after[new_start:new_stop])
    yield from zip(before[old_end:], after[new_end:], strict=True)


def _paired_by_model(before: Sequence[GraphRecord], after: Sequence[GraphRecord]) -> Iterator[Pair]:
    groups: dict[tuple[str, str], tuple[list[GraphRecord], list[GraphRecord]]] = {}
    for side, records in enumerate((before, after)):
        for each in records:
            groups.setdefault((each.kind, each.model), ([], []))[side].append(each)
    for old, new in groups.values():
        yield from zip_longest(old, new)


def _content(record: GraphRecord) -> tuple[str, str, str]:
    return record.kind, record.model, record.graph
