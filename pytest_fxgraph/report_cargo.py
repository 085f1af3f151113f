"""What travels on a test report from the process that compares to the one that writes, which under xdist is another.

pytest-xdist sends every attribute of a report that is plain data, so outcomes travel as plain dicts. A worker that
crashes hands over nothing, and nothing is written for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_fxgraph.report.outcome import Outcome

_ATTRIBUTE = "fxgraph_outcomes"


def hand_over(outcomes: Iterable[Outcome], report: pytest.TestReport) -> None:
    """Put outcomes on a report; one that has none stays as it was."""
    plain = [outcome.to_dict() for outcome in outcomes]
    if plain:
        setattr(report, _ATTRIBUTE, plain)


def take_over(report: pytest.TestReport) -> list[Outcome]:
    """Return the outcomes that came with a report."""
    plain: list[dict[str, Any]] = getattr(report, _ATTRIBUTE, [])
    if not plain:
        return []
    from pytest_fxgraph.report.outcome import Outcome  # here: the plugin imports this file in every run

    return [Outcome.from_dict(each) for each in plain]
