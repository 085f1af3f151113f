"""The messages between the controller and the workers of pytest-xdist. Registered if a run is distributed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from pytest_fxgraph.errors import GateError
from pytest_fxgraph.gate.collection import CollectionRecord
from pytest_fxgraph.gate.paths import STARTED_IN, golden_store, slashed_path, within_folder
from pytest_fxgraph.goldens.files import golden_digest
from pytest_fxgraph.report.outcome import Outcome

_COLLECTION = "fxgraph_collection"  # in a worker's output


class Controller:
    """Sends facts that only the controller knows to the workers, and receives their collections."""

    def __init__(self, record: CollectionRecord | None) -> None:
        self._record = record

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where the user's pytest was started; on another machine it has no way to know."""
        with suppress(ValueError):  # on another drive than rootdir
            node.workerinput[STARTED_IN] = slashed_path(node.config.invocation_params.dir, node.config.rootpath)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the collection of a worker to the record; a worker that crashed sends nothing."""
        sent = getattr(node, "workeroutput", {}).get(_COLLECTION)
        if sent and self._record is not None:
            self._record.add(sent)


class Worker:
    """Sends the collection of this worker to the controller."""

    def __init__(self, record: CollectionRecord | None) -> None:
        self._record = record

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Put the record where pytest-xdist takes it along."""
        if self._record is not None:
            session.config.workeroutput[_COLLECTION] = self._record.to_dict()  # type: ignore[attr-defined]  # xdist's


def check_remote_golden(outcome: Outcome, report: pytest.TestReport, config: pytest.Config) -> str | None:
    """Check that a remote worker compared with the golden that lies here; return the error, None without one.

    Call this before the outcome writes anything: a golden that is new to the worker may be old here.
    """
    if not _ran_elsewhere(report):
        return None
    try:
        digest = golden_store(config).digest(within_folder(outcome.golden, config))
    except (GateError, OSError, ValueError):
        return None  # a golden that cannot be read here gets an error of its own
    is_wanted = outcome.new_text is not None and digest == golden_digest(outcome.new_text.encode())
    if digest == outcome.expected_digest or is_wanted:
        return None
    if outcome.expected_digest is None:
        reason = "it has no copy of it, and one lies here"
    else:
        reason = f"its copy is not {'the one here' if digest else 'here'}"
    worker = getattr(report, "worker_id", "a worker")
    return f"cannot trust what {worker} says of {outcome.golden}: {reason}; bring both machines to one revision"


def _ran_elsewhere(report: pytest.TestReport) -> bool:
    """Tell whether a report comes from a worker that has a disk, or a folder, of its own."""
    node: Any = getattr(report, "node", None)
    spec = getattr(getattr(node, "gateway", None), "spec", None)
    if spec is None:
        return False
    return not spec.popen or spec.chdir is not None  # execnet answers None for what a spec does not name
