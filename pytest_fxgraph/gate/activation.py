"""When a run begins to follow its goldens: at once if it has to do with any, otherwise as soon as a test asks for one.

A project that has the plugin installed and does not use it imports nothing more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_fxgraph.choices import BESIDE
from pytest_fxgraph.gate.collection import COLLECTION_RECORD
from pytest_fxgraph.settings import GOLDEN_DIR, is_worker, value_of_config

if TYPE_CHECKING:
    from pytest_fxgraph.gate.session import GoldenSession
    from pytest_fxgraph.report.outcome import Outcome

_GOLDEN_SESSION: pytest.StashKey[GoldenSession] = pytest.StashKey()
_FIXTURES = frozenset({"fx_golden", "fx_table"})
# Options that concern goldens no test of this process asks for.
_OPTIONS = ("fx_update_golden", "fx_received", "fx_prune_golden", "fx_report")


def needs_golden_session(config: pytest.Config) -> bool:
    """Tell, before anything is collected, whether a run has to do with goldens, or would not learn of it in time."""
    folder = value_of_config(GOLDEN_DIR, config)
    # A project that has its goldens beside its tests has some; to find the folders would take a walk through all of it.
    if any(config.getoption(name) for name in _OPTIONS) or folder == BESIDE:
        return True
    if os.path.isdir(os.path.join(config.rootpath, folder)):  # as GoldenLayout has it, which is not imported here
        return True
    # The controller of pytest-xdist collects nothing itself.
    return config.getoption("dist", "no") != "no" or bool(config.getoption("tx", None))


def use_goldens(items: list[pytest.Item]) -> bool:
    """Tell whether one of the tests asks for a fixture of goldens in its signature, or through another fixture."""
    return any(not _FIXTURES.isdisjoint(getattr(item, "fixturenames", ())) for item in items)


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
