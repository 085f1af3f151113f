"""The hooks of every process. Each does nothing, and imports nothing, in a run that does not need it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_fxgraph import plugin
from pytest_fxgraph.fixtures import attempt_of, begun_attempt
from pytest_fxgraph.gate import collection
from pytest_fxgraph.gate.launched_rank import LAUNCHED_RANK


def config_of(**options: Any) -> Any:
    """Return the configuration of a run that is no run of pytest-xdist; `calls` has what a hook did with it."""
    calls: list[Any] = []
    manager = SimpleNamespace(
        import_plugin=calls.append,
        register=lambda made, name: calls.append(name),
        get_plugin=lambda name: options.get(name),
        get_name=lambda module: options.get("loaded_as"),
        has_plugin=lambda name: name in options.get("plugins", ()),
        set_blocked=calls.append,
    )
    return SimpleNamespace(pluginmanager=manager, calls=calls, stash=pytest.Stash(), getoption=options.get)


@pytest.mark.parametrize(("is_seeded", "imported"), [(True, ["pytest_fxgraph.replay.seeded_run"]), (False, [])])
def test_the_plugin_of_a_seeded_recording_is_loaded_for_one(is_seeded, imported):
    config = config_of(fx_record_seeded=is_seeded)

    plugin.pytest_cmdline_main(config)

    assert config.calls == imported


@pytest.mark.parametrize(
    ("options", "blocked"),
    [
        ({"loaded_as": "fxgraph"}, ["pytest_fxgraph.plugin"]),
        ({"loaded_as": "pytest_fxgraph.plugin"}, ["fxgraph"]),
        ({"loaded_as": "fxgraph", "plugins": ("pytest_fxgraph.plugin",)}, []),
        ({}, ["fxgraph", "pytest_fxgraph.plugin"]),
    ],
)
def test_the_other_name_of_the_plugin_is_taken(options, blocked):
    config = config_of(**options)

    plugin._answer_to_both_names(config.pluginmanager)

    assert config.calls == blocked


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, None),
        ({"TORCHELASTIC_RUN_ID": "a"}, None),
        ({"TORCHELASTIC_RUN_ID": "a", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, 1),
        ({"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}, 0),
        ({"PMI_SIZE": "3", "PMI_RANK": "2"}, 2),
        ({"RANK": "1"}, None),
    ],
)
def test_a_process_that_was_launched_as_a_rank_knows_its_place(variables, rank, monkeypatch):
    monkeypatch.setattr(plugin.os, "environ", variables)
    config = config_of()

    plugin._note_place_among_ranks(config)

    place = config.stash.get(LAUNCHED_RANK, None)
    assert (place and place.rank) == rank


@pytest.mark.parametrize(
    ("names", "collides"), [(["a", "b"], False), (["a", "A"], True), (["a", "a"], False), (["b", "a", "B"], True)]
)
def test_tests_whose_names_differ_in_case_alone_are_marked(names, collides, monkeypatch):
    marked: list[Any] = []
    monkeypatch.setattr(collection, "mark_case_collisions", marked.append)
    collector: Any = None
    report: Any = SimpleNamespace(result=[SimpleNamespace(name=name) for name in names])
    hook = plugin.pytest_make_collect_report(collector)
    next(hook)

    with pytest.raises(StopIteration) as ended:
        hook.send(report)

    assert ended.value.value is report
    assert marked == ([report] if collides else [])


def test_a_worker_cannot_refuse_markers():
    mark, config = pytest.mark.fx(level="unknown").mark, config_of()
    item: Any = SimpleNamespace(own_markers=[mark], parent=None, nodeid="test_a.py::test_x")

    with pytest.raises(pytest.UsageError, match=r"^marker fx of test_a\.py::test_x"):
        plugin.pytest_collection_modifyitems([item], config)
    config.workerinput = {}
    plugin.pytest_collection_modifyitems([item], config)


@pytest.mark.parametrize(
    ("fixtures", "of_tests", "of_goldens"),
    [
        ([], False, False),
        ([["request", "fx_trace"]], False, False),
        ([["request"], ["x", "fx_golden"]], True, True),
        ([["fx_table"]], True, True),
        ([["fx_ops"]], True, False),
        ([["fx_ranks"]], True, False),
        ([["fx_stages"]], True, False),
    ],
)
def test_tests_and_goldens_are_followed_once_a_test_asks_for_them(fixtures, of_tests, of_goldens, monkeypatch):
    enabled: list[Any] = []
    monkeypatch.setattr(plugin, "_enable_golden_session", enabled.append)
    items, manager = [SimpleNamespace(fixturenames=names) for names in fixtures], pytest.PytestPluginManager()
    config = SimpleNamespace(pluginmanager=manager)
    session: Any = SimpleNamespace(items=[SimpleNamespace(), *items], config=config)

    plugin.pytest_collection_finish(session)
    plugin.pytest_collection_finish(session)

    assert enabled == [config, config] * of_goldens
    assert manager.has_plugin("fxgraph-around-tests") is of_tests


@pytest.mark.parametrize(
    ("stats", "registered"),
    [
        (None, []),
        ({}, []),
        ({"passed": [1], "failed": []}, []),
        ({"failed": [1]}, ["fxgraph-terminal-sections"]),
        ({"error": [1]}, ["fxgraph-terminal-sections"]),
    ],
)
def test_sections_are_coloured_after_a_failure(stats, registered):
    config = config_of(terminalreporter=None if stats is None else SimpleNamespace(stats=stats))

    plugin.pytest_sessionfinish(SimpleNamespace(config=config))

    assert config.calls == registered


@pytest.mark.parametrize(
    ("failed", "is_full", "is_shortened"), [(True, None, True), (True, True, False), (False, None, False)]
)
def test_failures_are_shortened_unless_the_full_trace_is_asked_for(failed, is_full, is_shortened, monkeypatch):
    shortened: list[Any] = []
    monkeypatch.setattr("pytest_fxgraph.gate.brief_failures.shorten_failure", shortened.append)
    config = config_of() if is_full is None else config_of(fulltrace=is_full)
    config.getoption = lambda name, default=None: {"fulltrace": is_full}.get(name) or default
    call: Any = SimpleNamespace(excinfo="a failure" if failed else None)

    plugin.pytest_shorten_failures(SimpleNamespace(config=config), call)

    assert shortened == (["a failure"] if is_shortened else [])


def test_a_comparison_of_other_objects_is_not_explained():
    assert plugin.pytest_assertrepr_compare("==", 1, "text") is None


@pytest.mark.parametrize(
    ("options", "registered", "is_enabled"),
    [
        ({}, [], False),
        ({"fx_update_golden": True}, ["record", "fxgraph-collected-sources"], True),
        ({"fx_report": ["r.md"]}, ["record"], True),
        ({"fx_report": ["r.md"], "dist": "load"}, ["record", "fxgraph-workers"], True),
        ({"dist": "load"}, ["record", "fxgraph-workers"], True),
        ({"is_worker": True}, ["record", "fxgraph-workers"], False),
        ({"is_worker": True, "fx_unused": "ignore"}, ["fxgraph-workers"], False),
        ({"fx_golden_dir": "beside", "fx_unused": "ignore"}, [], True),
    ],
)
def test_the_parts_of_a_run_are_registered_for_what_it_needs(options, registered, is_enabled, monkeypatch, tmp_path):
    config, enabled = config_of(), []
    monkeypatch.setattr(plugin, "_enable_golden_session", enabled.append)
    monkeypatch.setattr(plugin, "_registered_record", lambda config: config.calls.append("record"))
    monkeypatch.setattr(plugin, "_note_place_among_ranks", lambda config: None)
    given = {"fx_report": [], **options}
    config.getoption = lambda name, default=None: given.get(name, default)
    config.getini, config.rootpath, config.addinivalue_line = (lambda name: ""), tmp_path, lambda *line: None
    if options.get("is_worker"):
        config.workerinput = {}

    plugin.pytest_configure(config)

    assert config.calls == registered
    assert enabled == [config] * is_enabled


@pytest.mark.parametrize(("name", "is_golden", "ignored"), [("a.yaml", True, True), ("a.yaml", False, None),
                                                            ("a.py", True, None)])  # fmt: skip
def test_goldens_alone_are_kept_from_other_plugins(name, is_golden, ignored, monkeypatch, tmp_path):
    layout = SimpleNamespace(holds=lambda path: is_golden)
    monkeypatch.setattr("pytest_fxgraph.gate.paths.golden_layout", lambda config: layout)

    assert plugin.pytest_ignore_collect(tmp_path / name, config_of()) is ignored


@pytest.mark.parametrize(
    ("is_worker", "registered"),
    [(False, ["fxgraph-collection", "fxgraph-item-results"]), (True, ["fxgraph-collection"])],
)
def test_results_of_tests_are_recorded_where_all_reports_arrive(is_worker, registered, monkeypatch):
    monkeypatch.setattr(collection, "CollectionRecord", lambda config: "the record")
    config = config_of()
    if is_worker:
        config.workerinput = {}

    assert plugin._registered_record(config) == config.stash[collection.COLLECTION_RECORD] == "the record"
    assert config.calls == registered


def report_of(item: Any, excinfo: Any, **facts: Any) -> Any:
    """Return the report that the plugin's hook makes of a report of pytest."""
    report = SimpleNamespace(**{"sections": [], "failed": excinfo is not None, "when": "call", **facts})
    hook = plugin.pytest_runtest_makereport(item, SimpleNamespace(excinfo=excinfo))
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(report)
    assert ended.value.value is report
    return report


def item_in(config: Any) -> Any:
    return SimpleNamespace(stash=pytest.Stash(), config=config)


def test_a_report_has_the_sections_of_the_attempt_once():
    item = item_in(config_of())
    assert report_of(item, None).sections == []
    attempt_of(item).sections.append(("fx", "text"))

    assert report_of(item, None).sections == [("fx", "text")]
    assert report_of(item, None).sections == []
    assert begun_attempt(item) is not None


@pytest.mark.parametrize(
    ("has_failed", "sections", "usepdb", "is_shown"),
    [(True, ["a"], True, True), (False, ["a"], True, False), (True, [], True, False), (True, ["a"], None, False)],
)
def test_sections_of_a_failure_are_shown_before_the_debugger(has_failed, sections, usepdb, is_shown, monkeypatch):
    shown: list[Any] = []
    monkeypatch.setattr("pytest_fxgraph.gate.terminal.show_before_debugger", shown.append)
    monkeypatch.setattr(plugin, "_attach_failure", lambda *_: None)
    options = {} if usepdb is None else {"usepdb": usepdb}
    item = item_in(SimpleNamespace(getoption=lambda name, default: options.get(name, default)))
    attempt_of(item)

    report = report_of(item, SimpleNamespace(value=None) if has_failed else None, sections=sections)

    assert shown == [report] * is_shown


@pytest.mark.parametrize(
    ("failed", "has_attempt", "style", "is_marked", "summary"),
    [
        (True, True, "auto", True, ["an outcome"]),
        (True, False, "auto", False, []),
        (True, True, "line", True, None),
        (False, True, "auto", False, None),
    ],
)
def test_a_failure_is_summarized_unless_one_line_is_all_that_is_shown(
    failed, has_attempt, style, is_marked, summary, monkeypatch
):
    marked: list[Any] = []
    told: list[Any] = []
    monkeypatch.setattr("pytest_fxgraph.gate.attempt.mark_missing", lambda attempt, *_: marked.append(attempt))
    monkeypatch.setattr(
        "pytest_fxgraph.gate.brief_failures.summarize_failure", lambda report, error, outcomes: told.append(outcomes)
    )
    item = item_in(config_of(tbstyle=style))
    if has_attempt:
        attempt_of(item).outcomes.append("an outcome")

    plugin._attach_failure(item, ValueError(), SimpleNamespace(failed=failed))

    assert marked == [begun_attempt(item)] * is_marked
    assert told == ([] if summary is None else [summary])
