"""Goldens that workers on other machines read: theirs are copies, which have to be what the controller has."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_fxgraph.document.received import golden_digest
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden_folder import golden_root, within_folder
from pytest_fxgraph.report.outcome import Outcome


class WorkerCopies:
    """Notices a worker that compared with another golden than the one that lies here."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def trouble(self, outcome: Outcome, report: pytest.TestReport) -> str | None:
        """Say what is wrong with the golden that a remote worker compared with; None where nothing is.

        Asked before anything is written for the outcome: what a worker calls new may have been here for long.
        """
        if not _ran_elsewhere(report):
            return None
        from pytest_fxgraph.document.golden_store import GoldenStore  # here, as it imports yaml

        try:
            digest = GoldenStore(golden_root(self._config)).digest(within_folder(outcome.golden, self._config))
        except (GateError, OSError, ValueError):
            return None  # a golden that cannot be read here has its own words
        is_wanted = outcome.new_text is not None and digest == golden_digest(outcome.new_text.encode())
        if digest == outcome.expected_digest or is_wanted:
            return None
        if outcome.expected_digest is None:
            words = "it has no copy of it, and one lies here"
        else:
            words = f"its copy is not {'the one here' if digest else 'here'}"
        worker = getattr(report, "worker_id", "a worker")
        return f"cannot trust what {worker} says of {outcome.golden}: {words}; bring both machines to one revision"


def _ran_elsewhere(report: pytest.TestReport) -> bool:
    """Tell whether a report comes from a worker of pytest-xdist that has a disk, or a folder, of its own."""
    node: Any = getattr(report, "node", None)
    spec = getattr(getattr(node, "gateway", None), "spec", None)
    if spec is None:
        return False
    return not getattr(spec, "popen", False) or getattr(spec, "chdir", None) is not None
