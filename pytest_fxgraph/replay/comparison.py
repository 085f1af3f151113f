"""The comparison of two recordings: test by test, and within a test graph by graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.levels import compare_documents
from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.records import GraphRecord
from pytest_fxgraph.recordings.store import RecordingStore


@dataclass(frozen=True)
class ChangedGraph:
    """A graph of a test that differs between the recordings. A new graph has no `before`, a vanished one no `after`."""

    test: str
    before: GraphRecord | None
    after: GraphRecord | None
    documents: tuple[GraphDocument, GraphDocument] | None = None
    difference: Difference | None = None


@dataclass(frozen=True)
class Replay:
    """The result of a comparison of two recordings."""

    tests: int  # in both
    same: int  # graphs
    changed: Sequence[ChangedGraph]
    new_tests: Sequence[str]
    vanished_tests: Sequence[str]
    other_outcomes: Sequence[tuple[str, str, str]]  # test, outcome before, outcome after

    @property
    def is_same(self) -> bool:
        """Tell whether nothing changed."""
        return not (self.changed or self.new_tests or self.vanished_tests or self.other_outcomes)


def compare_recordings(before: Recording, after: Recording) -> Replay:
    """Compare two recordings at level `structure`."""
    documents = _Comparisons(before.store, after.store)
    both = [test for test in after.tests if test in before.tests]
    same = 0
    changed: list[ChangedGraph] = []
    for test in both:
        for old, new in _paired(before.tests[test].graphs, after.tests[test].graphs):
            if old is None or new is None:
                changed.append(ChangedGraph(test, old, new))
                continue
            found = None if old.graph == new.graph else documents.difference(old.graph, new.graph)
            if found is None or found[1].is_empty:
                same += 1
            else:
                changed.append(ChangedGraph(test, old, new, *found))
    outcomes = [(test, before.tests[test].outcome, after.tests[test].outcome) for test in both]
    return Replay(
        len(both),
        same,
        changed,
        [test for test in after.tests if test not in before.tests],
        [test for test in before.tests if test not in after.tests],
        [each for each in outcomes if each[1] != each[2]],
    )


def _paired(
    before: Sequence[GraphRecord], after: Sequence[GraphRecord]
) -> Iterator[tuple[GraphRecord | None, GraphRecord | None]]:
    """Pair the graphs of a test: equal graphs in their order, and between them the graphs of one kind and model."""
    matcher = SequenceMatcher(None, [_content(each) for each in before], [_content(each) for each in after], False)
    for tag, first, last, new_first, new_last in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(before[first:last], after[new_first:new_last], strict=True)
        else:
            yield from _paired_by_model(before[first:last], after[new_first:new_last])


def _paired_by_model(
    before: Sequence[GraphRecord], after: Sequence[GraphRecord]
) -> Iterator[tuple[GraphRecord | None, GraphRecord | None]]:
    keys = dict.fromkeys((each.kind, each.model) for each in (*before, *after))
    for key in keys:
        old, new = ([each for each in records if (each.kind, each.model) == key] for records in (before, after))
        yield from zip_longest(old, new)


def _content(record: GraphRecord) -> tuple[str, str, str]:
    return record.kind, record.model, record.graph


class _Comparisons:
    """The differences between graphs of two stores, each made once."""

    def __init__(self, before: RecordingStore, after: RecordingStore) -> None:
        self._stores = before, after
        self._found: dict[tuple[str, str], tuple[tuple[GraphDocument, GraphDocument], Difference]] = {}

    def difference(self, before: str, after: str) -> tuple[tuple[GraphDocument, GraphDocument], Difference]:
        """Return both documents and their difference."""
        if (before, after) not in self._found:
            texts = self._stores[0].text(before), self._stores[1].text(after)
            documents = decode(texts[0], before), decode(texts[1], after)
            self._found[before, after] = documents, compare_documents(*documents)
        return self._found[before, after]
