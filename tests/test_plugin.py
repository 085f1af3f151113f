"""The hooks of every process. Each does nothing, and imports nothing, in a run that does not need it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_fxgraph import plugin
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
