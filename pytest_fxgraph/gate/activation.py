"""The session of goldens: registered once a run has to do with goldens, and asked for what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_fxgraph.gate.collection import COLLECTION_RECORD
from pytest_fxgraph.settings import is_worker

if TYPE_CHECKING:
    from pytest_fxgraph.gate.session import GoldenSession
    from pytest_fxgraph.report.outcome import Outcome

_GOLDEN_SESSION: pytest.StashKey[GoldenSession] = pytest.StashKey()


def enable_golden_session(config: pytest.Config) -> None:
    """Follow reports from now on, in the process that writes goldens; a second call does nothing."""
    if is_worker(config) or _GOLDEN_SESSION in config.stash:
        return
    from pytest_fxgraph.gate.run_end import RunEnd
    from pytest_fxgraph.gate.session import GoldenSession

    goldens = config.stash[_GOLDEN_SESSION] = GoldenSession(config)
    config.pluginmanager.register(goldens, "fxgraph-golden-session")
    config.pluginmanager.register(RunEnd(goldens, config.stash.get(COLLECTION_RECORD, None)), "fxgraph-run-end")


def outcomes_of_run(config: pytest.Config) -> list[Outcome]:
    """Return what became of the goldens so far, in the process that writes them; nothing in a run without any."""
    goldens = config.stash.get(_GOLDEN_SESSION, None)
    return [] if goldens is None else goldens.outcomes
