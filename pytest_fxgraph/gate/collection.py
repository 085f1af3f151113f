"""The record of a collection: all tests in the files, before any selection, and the tests that ran.

The process that collects tests keeps the record. Workers of pytest-xdist send theirs when they finish. A run without
goldens needs no record, and does not import this file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping

import pytest

_HAS_CASE_COLLISION = pytest.StashKey[None]()  # of a test


class CollectionRecord:
    """Records the files and classes that were collected, and everything in them: `found`, `ended` and `failed`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[pytest.Item | pytest.Collector] = []
        self.found: dict[str, set[str]] = {}
        self.ended: dict[str, set[str]] = {}
        self.failed: dict[str, set[str]] = {}

    @pytest.hookimpl(wrapper=True, trylast=True)  # nearest to the collector, before other plugins leave tests out
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Record the content of a file or class."""
        report = yield
        self._take(collector, report)
        return report

    def _take(self, collector: pytest.Collector, report: pytest.CollectReport) -> None:
        if not any(isinstance(node, pytest.File) for node in collector.listchain()):
            return
        if isinstance(collector, pytest.File):
            self._nodes.append(collector)
        self._nodes += report.result or ()
        if report.failed:
            _add(self.failed, collector.nodeid)
        elif report.passed and self._saw_all(collector, report):
            _add(self.ended, collector.nodeid)

    def _saw_all(self, collector: pytest.Collector, report: pytest.CollectReport) -> bool:
        """Tell whether the collector was shown all that there is in a file or class."""
        if not isinstance(collector, pytest.File):
            return True
        if self._config.getoption("lf", False) and not report.result:
            return False  # --lf gives files as empty that it does not look into
        # Collectors of doctests, types and styles look into Python files too, and see no tests in them.
        is_of_tests = isinstance(collector, pytest.Module) and type(collector).__name__ != "DoctestModule"
        return is_of_tests or collector.path.suffix != ".py"

    def pytest_collection_finish(self) -> None:
        """Read the ids. Plugins could change ids until now."""
        for node in self._nodes:
            _add(self.found, node.nodeid)
        self._nodes.clear()

    def to_dict(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the record as plain sorted data: the fields of a RunRecord, and the message of a worker."""
        return {
            name: {file: tuple(sorted(part[file])) for file in sorted(part)} for name, part in self._parts().items()
        }

    def add(self, sent: Mapping[str, Mapping[str, Iterable[str]]]) -> None:
        """Add the record of a worker, in the form of `to_dict`."""
        for name, part in self._parts().items():
            for file, ids in sent[name].items():
                part.setdefault(file, set()).update(ids)

    def _parts(self) -> dict[str, dict[str, set[str]]]:
        return {"found": self.found, "ended": self.ended, "failed": self.failed}


COLLECTION_RECORD = pytest.StashKey[CollectionRecord]()  # in the stash of a run's config that wants a record


class ItemResults:
    """Adds the tests that ran to their end or failed to a record. Lives in the process with all reports."""

    def __init__(self, record: CollectionRecord) -> None:
        self._record = record
        self._passed: dict[str, set[str]] = {}  # phases of tests under way

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow a test from its setup to its teardown; an attempt that is repeated does not count."""
        outcome, when = str(report.outcome), str(report.when)
        if outcome == "failed":
            _add(self._record.failed, report.nodeid)
        elif outcome == "passed":
            phases = self._passed.setdefault(report.nodeid, set())
            if when == "setup":
                phases.clear()
            phases.add(when)
        if when == "teardown" and self._passed.pop(report.nodeid, set()) == {"setup", "call", "teardown"}:
            _add(self._record.ended, report.nodeid)


def _add(part: dict[str, set[str]], nodeid: str) -> None:
    file, _, inside = nodeid.partition("::")
    part.setdefault(file, set()).add(inside)


def mark_case_collisions(report: pytest.CollectReport) -> None:
    """Mark the tests of one collector whose names differ only in case.

    Asked of everything that a file or class holds, before any selection: whether a test runs alone or with its
    siblings must not change where its golden lies.
    """
    found = report.result or ()
    names = {node.name for node in found}
    folded = Counter(name.casefold() for name in names)
    for node in found:
        if folded[node.name.casefold()] > 1:
            node.stash[_HAS_CASE_COLLISION] = None


def has_case_collision(item: pytest.Item) -> bool:
    """Tell whether another test's id differs from this one's only in case."""
    return any(_HAS_CASE_COLLISION in node.stash for node in item.listchain())
