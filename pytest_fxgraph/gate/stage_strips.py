"""Lowerings that tests followed with `fx_stages`, on their way to the reports of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_fxgraph.report.stage_strip import StageStrip

_ATTRIBUTE = "fxgraph_stage_strips"  # of a report
_MADE: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()


def keep_strip(strip: StageStrip, config: pytest.Config) -> None:
    """Keep a lowering for the report of the test that runs."""
    config.stash.setdefault(_MADE, []).append(strip.to_dict())


def attach_strips(report: pytest.TestReport, config: pytest.Config) -> None:
    """Put on a report what was kept since the last one, as plain data, which pytest-xdist carries."""
    made = config.stash.get(_MADE, [])
    if made:
        setattr(report, _ATTRIBUTE, [{**strip, "nodeid": str(report.nodeid)} for strip in made])
        config.stash[_MADE] = []


class StageStrips:
    """The lowerings of a run, those of the last attempt of each test."""

    def __init__(self) -> None:
        self._by_test: dict[str, list[dict[str, Any]]] = {}

    def take(self, report: pytest.TestReport) -> None:
        """Keep what came with a report; those of an earlier attempt of the test are forgotten."""
        if report.when == "setup":
            self._by_test.pop(str(report.nodeid), None)
        found = getattr(report, _ATTRIBUTE, None)
        if found:
            self._by_test.setdefault(str(report.nodeid), []).extend(found)

    def all(self) -> tuple[StageStrip, ...]:
        """Return the lowerings, in the order of their tests."""
        from pytest_fxgraph.report.stage_strip import StageStrip  # here: most runs have none

        return tuple(StageStrip.from_dict(each) for strips in self._by_test.values() for each in strips)
