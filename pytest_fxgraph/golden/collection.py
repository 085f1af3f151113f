"""What collection found in test files, before anything was selected, deselected or left out of it.

Counted where tests are collected, which under pytest-xdist is in the workers; they send it along as they finish.
"""

from __future__ import annotations

from typing import Any
import pytest
from collections import Counter
import pytest


_OUTPUT = "fxgraph_census"


class CollectionRecord:
    """Notes the files and classes that were looked into, and all that is in them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._nodes: list[pytest.Item | pytest.Collector] = []
        self.found: dict[str, set[str]] = {}
        self.ended: dict[str, set[str]] = {}
        self.failed: dict[str, set[str]] = {}

    def take(self, collector: pytest.Collector, report: pytest.CollectReport) -> None:
        """Note what a file, or a class in it, holds. Has to be told before other plugins leave something out."""
        if not any(isinstance(node, pytest.File) for node in collector.listchain()):
            return
        if isinstance(collector, pytest.File):
            self._nodes.append(collector)
        self._nodes += report.result or ()
        if report.failed:
            _note(self.failed, collector.nodeid)
        elif report.passed and self._saw_all(collector, report):
            _note(self.ended, collector.nodeid)

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
        """Read the ids, which until now could have been changed."""
        for node in self._nodes:
            _note(self.found, node.nodeid)
        self._nodes.clear()

    def pytest_sessionfinish(self) -> None:
        """Send the census to the controller."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            parts = {"found": self.found, "ended": self.ended, "failed": self.failed}
            output[_OUTPUT] = {name: {file: sorted(ids) for file, ids in part.items()} for name, part in parts.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the census of a worker; one that crashed sends none."""
        sent = getattr(node, "workeroutput", {}).get(_OUTPUT, {})
        for name, mine in (("found", self.found), ("ended", self.ended), ("failed", self.failed)):
            for file, ids in sent.get(name, {}).items():
                mine.setdefault(file, set()).update(ids)


class ItemResults:
    """Notes in a census which tests ran to their end, and which failed; lives where reports arrive."""

    def __init__(self, census: CollectionRecord) -> None:
        self._census = census
        self._passed: dict[str, set[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Follow a test from its setup to its teardown; an attempt that is repeated does not count."""
        outcome, when = str(report.outcome), str(report.when)
        if outcome == "failed":
            _note(self._census.failed, report.nodeid)
        elif outcome == "passed":
            phases = self._passed.setdefault(report.nodeid, set())
            if when == "setup":
                phases.clear()
            phases.add(when)
        if when == "teardown" and self._passed.pop(report.nodeid, set()) == {"setup", "call", "teardown"}:
            _note(self._census.ended, report.nodeid)


def _note(part: dict[str, set[str]], nodeid: str) -> None:
    file, _, inside = nodeid.partition("::")
    part.setdefault(file, set()).add(inside)


HAS_CASE_COLLISION = pytest.StashKey[bool]()


def mark_case_collisions(report: pytest.CollectReport) -> None:
    """Mark what one collector found whose names differ only in case.

    Asked of everything that a file or class holds, before any selection: whether a test runs alone or with its
    siblings must not change where its golden lies.
    """
    found = report.result or ()
    names = {node.name for node in found}
    folded = Counter(name.casefold() for name in names)
    if len(folded) == len(names):
        return
    for node in found:
        if folded[node.name.casefold()] > 1:
            node.stash[HAS_CASE_COLLISION] = True


def has_case_collision(item: pytest.Item) -> bool:
    """Tell whether another test's id differs from this one's only in case."""
    return any(HAS_CASE_COLLISION in node.stash for node in item.listchain())
