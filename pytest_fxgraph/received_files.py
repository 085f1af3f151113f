"""Writes what failed tests received beside their goldens, and removes what is out of date."""

from __future__ import annotations

import pytest

from pytest_fxgraph.document.received import Received, received_path, write_received
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.golden_folder import golden_root, shown, within_folder
from pytest_fxgraph.report.outcome import Outcome


class ReceivedFiles:
    """The received files of a run that was asked for them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_wanted = bool(config.getoption("fx_received"))
        self._kept: set[str] = set()
        self.written: list[str] = []
        self.errors: list[str] = []

    def conclude(self, outcome: Outcome, *, passed: bool, failed: bool) -> None:
        """Write what a failed test received; remove what was received once for a golden that a passed test matches."""
        if not self._is_wanted:
            return
        received = received_path(within_folder(outcome.golden, self._config))
        from pytest_fxgraph.document.golden_store import GoldenStore  # here, as it imports yaml

        store = GoldenStore(golden_root(self._config))
        try:
            if failed and outcome.received is not None and outcome.golden not in self._kept:
                self._kept.add(outcome.golden)
                store.write(received, write_received(Received(outcome.received, outcome.expected_digest)))
                self.written.append(shown(received, self._config))
            elif passed and outcome.golden not in self._kept:
                store.remove(received)
        except (GateError, OSError) as error:
            self.errors.append(str(error))
