"""The pytest plugin. pytest loads it through the entry point `fxgraph`. Imports no torch.

This file has the hooks of every process. `gate.session` and `gate.run_end` have the hooks of the process that writes.
Each file costs every run of pytest up to a millisecond, with or without goldens. Modules that only goldens and failures
need are therefore imported inside the hooks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph import hookspecs, settings
from pytest_fxgraph.fixtures import attempt_of, begun_attempt, end_attempt, follow_all_tests
from pytest_fxgraph.fixtures import fx_capture as fx_capture
from pytest_fxgraph.fixtures import fx_equivalence as fx_equivalence
from pytest_fxgraph.fixtures import fx_golden as fx_golden
from pytest_fxgraph.fixtures import fx_ops as fx_ops
from pytest_fxgraph.fixtures import fx_ranks as fx_ranks
from pytest_fxgraph.fixtures import fx_rewrite as fx_rewrite
from pytest_fxgraph.fixtures import fx_stages as fx_stages
from pytest_fxgraph.fixtures import fx_table as fx_table
from pytest_fxgraph.fixtures import fx_trace as fx_trace
from pytest_fxgraph.fixtures import fx_transform as fx_transform

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_fxgraph.gate.collection import CollectionRecord

# The name of the entry point, and the module's name for `-p` and `pytest_plugins`.
_NAMES = ("fxgraph", __name__)
_FIXTURES_OF_GOLDENS = {"fx_golden", "fx_table"}
_FIXTURES_OF_TESTS = {*_FIXTURES_OF_GOLDENS, "fx_ops", "fx_ranks", "fx_stages"}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register options and ini keys."""
    _answer_to_both_names(pluginmanager)
    settings.add_options(parser)


def _answer_to_both_names(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let the plugin be asked for a second time under its other name, where pluggy would stop with an error."""
    loaded_as = pluginmanager.get_name(sys.modules[__name__])
    for name in _NAMES:
        if name != loaded_as and not pluginmanager.has_plugin(name):
            pluginmanager.set_blocked(name)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that users can implement."""
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Load the plugin of a seeded recording before other plugins are configured."""
    if config.getoption("fx_record_seeded"):
        config.pluginmanager.import_plugin("pytest_fxgraph.replay.seeded_run")


def pytest_configure(config: pytest.Config) -> None:
    """Check the settings, and register the parts of the plugin that this run needs."""
    config.addinivalue_line("markers", settings.MARKER)
    settings.check_options(config)
    register = config.pluginmanager.register
    _note_place_among_ranks(config)
    needs_goldens = settings.is_worker(config) or settings.needs_golden_session(config)
    record = _registered_record(config) if needs_goldens and settings.wants_collection_record(config) else None
    if settings.is_worker(config) or settings.is_controller(config):  # of pytest-xdist
        from pytest_fxgraph.gate.workers import Controller, Worker

        register(Worker(record) if settings.is_worker(config) else Controller(record), "fxgraph-workers")
    if config.getoption("fx_update_golden"):
        from pytest_fxgraph.gate.inline_call import COLLECTED_SOURCES, CollectedSources

        config.stash[COLLECTED_SOURCES] = CollectedSources()
        register(config.stash[COLLECTED_SOURCES], "fxgraph-collected-sources")
    if needs_goldens and not settings.is_worker(config):
        _enable_golden_session(config)
    if config.getoption("fx_record"):
        from pytest_fxgraph.recorder.session import register_recorder

        register_recorder(config)


def _note_place_among_ranks(config: pytest.Config) -> None:
    """Note the place of this process among the ranks that torchrun, mpirun or srun launched, for runs with goldens."""
    if not any("RANK" in name or name.startswith(("SLURM_", "PMI_")) for name in os.environ):
        return
    from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK, launched_rank

    place = launched_rank(os.environ, is_worker=settings.is_worker(config))
    if place is not None:
        config.stash[LAUNCHED_RANK] = place


def _registered_record(config: pytest.Config) -> CollectionRecord:
    """Have the collection recorded, and the results of tests where all reports arrive.

    Without a golden at the start of the run, no golden can be unused.
    """
    from pytest_fxgraph.gate.collection import COLLECTION_RECORD, CollectionRecord, ItemResults

    record = config.stash[COLLECTION_RECORD] = CollectionRecord(config)
    config.pluginmanager.register(record, "fxgraph-collection")
    if not settings.is_worker(config):
        config.pluginmanager.register(ItemResults(record), "fxgraph-item-results")
    return record


def _enable_golden_session(config: pytest.Config) -> None:
    from pytest_fxgraph.gate.activation import enable_golden_session

    enable_golden_session(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep goldens from plugins that collect YAML files."""
    if collection_path.suffix != ".yaml":
        return None
    from pytest_fxgraph.gate.paths import golden_layout

    return True if golden_layout(config).holds(collection_path) else None


@pytest.hookimpl(wrapper=True, trylast=True)  # nearest to the collector, before other plugins leave tests out
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Mark tests with ids that differ only in case."""
    report = yield
    names = {node.name for node in report.result or ()}
    if len({name.casefold() for name in names}) < len(names):
        from pytest_fxgraph.gate.collection import mark_case_collisions

        mark_case_collisions(report)
    return report


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Refuse markers with wrong values; under xdist, where a worker cannot refuse the run, their tests fail."""
    if not settings.is_worker(config):
        settings.check_markers(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Follow tests and goldens from now on, if a test asks for them in its signature, or through another fixture."""
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if asked & _FIXTURES_OF_TESTS:
        follow_all_tests(session.config)
    if asked & _FIXTURES_OF_GOLDENS:
        _enable_golden_session(session.config)


@pytest.hookimpl(specname="pytest_runtest_makereport")  # after unittest's hook has set the error
def pytest_shorten_failures(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Hide the plugin's frames, before the report of a failure is made."""
    if call.excinfo is not None and not item.config.getoption("fulltrace", False):
        from pytest_fxgraph.gate.brief_failures import shorten_failure

        shorten_failure(call.excinfo)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the outcomes of the attempt on the report. A worker sends reports, and nothing else of a test."""
    report = yield
    attempt = begun_attempt(item)
    if call.excinfo is not None:
        _attach_failure(item, call.excinfo.value, report)
        attempt = begun_attempt(item)
    elif attempt is None:
        return report
    if attempt is not None:
        report.sections += attempt.sections
        attempt.sections.clear()
        attempt.failed_checks.clear()  # the sections have them
        if report.when == "teardown":
            from pytest_fxgraph.gate.attempt import attach_outcomes, attach_properties

            attach_outcomes(attempt.outcomes, report, attempt.strips)
            attach_properties(attempt, report)
            end_attempt(item)
    if report.failed and report.sections and item.config.getoption("usepdb", False):
        from pytest_fxgraph.gate.terminal import show_before_debugger

        show_before_debugger(report)
    return report


def _attach_failure(item: pytest.Item, error: BaseException, report: pytest.TestReport) -> None:
    from pytest_fxgraph.errors import CheckError
    from pytest_fxgraph.gate.attempt import attach_numeric_failure, mark_missing
    from pytest_fxgraph.gate.brief_failures import summarize_failure

    if isinstance(error, CheckError):
        attach_numeric_failure(attempt_of(item), error, report)
    attempt = begun_attempt(item)
    if not report.failed:
        return
    if attempt is not None:
        mark_missing(attempt, error, report)
    if item.config.getoption("tbstyle") != "line":  # this line is all that is shown with it
        summarize_failure(report, error, [] if attempt is None else attempt.outcomes)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Colour our sections of failures. pytest prints its summary after this hook."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and (terminal.stats.get("failed") or terminal.stats.get("error")):
        from pytest_fxgraph.gate.terminal import TerminalSections

        session.config.pluginmanager.register(TerminalSections(session.config), "fxgraph-terminal-sections")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> Iterable[str] | None:
    """Explain a comparison with findings of a capture, and one that the subject's class answered for fx_golden."""
    # Comparisons of other objects import nothing.
    if not any(type(side).__module__.startswith("pytest_fxgraph.") for side in (left, right)):
        return None
    from pytest_fxgraph.captures.capture import explain_findings
    from pytest_fxgraph.gate.fixture import foreign_comparison_message

    return explain_findings(op, left, right) or foreign_comparison_message(op, left, right)
