"""The plugin is loaded by its entry point, by name, twice, or not at all."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fxgraph", pytest.param("pytest_fxgraph.plugin", marks=pytest.mark.slow)])
def test_autoload_off_and_the_plugin_asked_for_by_name(project, monkeypatch, name):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    result = project.pytester.runpytest_subprocess("-p", name, "--fx-update-golden")

    result.assert_outcomes(passed=1)
    assert list(project.goldens()) == ["test_net/test_net.yaml"]


@pytest.mark.parametrize("name", ["fxgraph", "pytest_fxgraph.plugin"])
def test_asking_for_the_plugin_again_is_no_error(project, name):
    project.update("-p", name).assert_outcomes(passed=1)


def test_a_conftest_that_names_the_plugin_is_no_error(project):
    project.write("conftest.py", 'pytest_plugins = ["pytest_fxgraph.plugin"]\n')

    project.update().assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_conftest_that_names_the_plugin_loads_it_where_autoload_is_off(project, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.write("conftest.py", 'pytest_plugins = ["pytest_fxgraph.plugin"]\n')

    result = project.pytester.runpytest_subprocess("--fx-update-golden")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["fx: 1 golden written"])


def test_the_plugin_can_be_switched_off(project):
    project.test("def test_nothing():\n    pass\n")

    result = project.run("-p", "no:fxgraph")

    result.assert_outcomes(passed=1)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("options", [["-p", "no:cacheprovider"], ["-p", "no:terminal"], ["-p", "no:logging"], ["-qq"]])
def test_the_walk_without_parts_of_pytest(project, options):
    assert project.update(*options).ret == 0

    assert list(project.goldens()) == ["test_net/test_net.yaml"]
    assert project.run(*options).ret == 0
