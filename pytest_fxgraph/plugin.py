"""The pytest plugin: what pytest loads through the entry point `fxgraph`. Imports no torch.

Here are the hooks that every process runs; what only the process that writes does is in `golden.session` and
`golden.run_end`. A file costs a run of pytest up to a millisecond, whether it uses the plugin or not: what a run
without goldens and without failures does not need is imported where it is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph import hookspecs, settings
from pytest_fxgraph.fixtures import (
    CURRENT_ITEM,
    fx_capture,
    fx_equivalence,
    fx_golden,
    fx_ops,
    fx_rewrite,
    fx_stages,
    fx_table,
    fx_trace,
    fx_transform,
)
from pytest_fxgraph.gate.activation import (
    enable_golden_session,
    needs_golden_session,
    use_goldens,
)
from pytest_fxgraph.gate.collection import COLLECTION_RECORD, CollectionRecord, ItemResults, mark_case_collisions
from pytest_fxgraph.gate.paths import is_worker

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "fx_capture",
    "fx_equivalence",
    "fx_golden",
    "fx_ops",
    "fx_rewrite",
    "fx_stages",
    "fx_table",
    "fx_trace",
    "fx_transform",
]

# The entry point, and the module, which `-p` and `pytest_plugins` name.
_NAMES = ("fxgraph", __name__)


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


def pytest_configure(config: pytest.Config) -> None:
    """Check the settings, and register the parts of the plugin that this run needs."""
    config.addinivalue_line("markers", settings.MARKER)
    settings.check_options(config)
    register = config.pluginmanager.register
    record = CollectionRecord(config) if settings.wants_collection_record(config) else None
    if record is not None:
        config.stash[COLLECTION_RECORD] = record
        register(record, "fxgraph-collection")
    if hasattr(config.hook, "pytest_configure_node"):  # pytest-xdist is loaded
        from pytest_fxgraph.gate.workers import Controller, Worker

        register(Worker(record) if is_worker(config) else Controller(record), "fxgraph-workers")
    if config.getoption("fx_update_golden"):
        from pytest_fxgraph.gate.inline_call import COLLECTED_SOURCES, CollectedSources

        config.stash[COLLECTED_SOURCES] = CollectedSources()
        register(config.stash[COLLECTED_SOURCES], "fxgraph-collected-sources")
    if is_worker(config):
        return
    if record is not None:
        register(ItemResults(record), "fxgraph-item-results")
    if needs_golden_session(config):
        enable_golden_session(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep goldens from plugins that collect YAML files."""
    if collection_path.suffix != ".yaml":
        return None
    from pytest_fxgraph.gate.paths import golden_layout

    return True if golden_layout(config).holds(collection_path) else None


@pytest.hookimpl(wrapper=True, trylast=True)  # nearest to what was found, before anybody leaves something out
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Record all that a file or class holds, and mark tests whose ids differ only in case."""
    report = yield
    mark_case_collisions(report)
    record = collector.config.stash.get(COLLECTION_RECORD, None)
    if record is not None:
        record.take(collector, report)
    return report


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Refuse markers with wrong values; under xdist, where a worker cannot refuse the run, their tests fail."""
    if not is_worker(config):
        settings.check_markers(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Follow the goldens from now on, if a test asks for them."""
    if use_goldens(session.items):
        enable_golden_session(session.config)


def _attempts() -> Any:
    """Return the module `golden.attempt`, or None while no test of this process has asked for a golden."""
    return sys.modules.get("pytest_fxgraph.gate.attempt")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin an attempt; a rerun begins another."""
    item.config.stash[CURRENT_ITEM] = item
    attempts = _attempts()
    if attempts is not None:
        attempts.start_attempt(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test, once it passed, for what `fx_golden.check` found, or for a fixture that compared nothing."""
    __tracebackhide__ = True
    yield
    attempts = _attempts()
    if attempts is not None:
        attempts.attempt_of(item).close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test for what `fx_golden.check` found in the teardown of its fixtures, too."""
    __tracebackhide__ = True
    attempts = _attempts()
    if attempts is not None:  # a test that failed otherwise shows those in report sections
        attempts.attempt_of(item).failed_checks.clear()
    yield
    attempts = _attempts()
    if attempts is not None:
        attempts.attempt_of(item).raise_failed_checks()


@pytest.hookimpl(specname="pytest_runtest_makereport")  # after unittest's, which says what was raised
def pytest_shorten_failures(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Hide the plugin's frames, before the report of a failure is made."""
    if call.excinfo is not None and not item.config.getoption("fulltrace", False):
        from pytest_fxgraph.gate.brief_failures import shorten_failure

        shorten_failure(call.excinfo)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what was found on the report, which is all that leaves a worker."""
    report = yield
    attempts = _attempts()
    attempt = None if attempts is None else attempts.attempt_of(item)
    if attempt is not None:
        report.sections += attempt.sections
        attempt.sections.clear()
    if call.excinfo is not None:
        error = call.excinfo.value
        if isinstance(getattr(error, "section", None), str):
            from pytest_fxgraph.gate import attempt as attempts

            attempts.attach_numeric_failure(item, error, report)
            attempt = attempts.attempt_of(item)
        if report.failed and attempt is not None:
            attempts.mark_missing(attempt, error, report)
        if report.failed and item.config.getoption("tbstyle") != "line":  # this line is all that is shown with it
            from pytest_fxgraph.gate.brief_failures import summarize_failure

            summarize_failure(report, error, [] if attempt is None else attempt.outcomes)
    if item.config.getoption("fx_report"):
        from pytest_fxgraph.gate.stage_strips import attach_strips  # here: most runs write no report

        attach_strips(report, item.config)
    if report.when == "teardown" and attempt is not None:
        attempts.attach_outcomes(attempt.outcomes, report)
        attempts.attach_properties(attempt, report)
        attempts.start_attempt(item)  # frees the frames and texts that this one held
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have failures shown with our sections in colour by the summary, which pytest prints once this is over."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and (terminal.stats.get("failed") or terminal.stats.get("error")):
        from pytest_fxgraph.gate.terminal import TerminalSections

        session.config.pluginmanager.register(TerminalSections(session.config), "fxgraph-terminal-sections")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> Iterable[str] | None:
    """Explain `assert subject == fx_golden` where the subject's class gave the answer instead of fx_golden."""
    capture = sys.modules.get("pytest_fxgraph.captures.capture")
    explained: Iterable[str] | None = None if capture is None else capture.explain_findings(op, left, right)
    if explained is not None:
        return explained
    fixture = sys.modules.get("pytest_fxgraph.gate.fixture")
    told: Iterable[str] | None = None if fixture is None else fixture.foreign_comparison_message(op, left, right)
    return told
