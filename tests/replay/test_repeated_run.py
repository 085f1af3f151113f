"""Orders that should not matter are turned round in the process of a repeated run."""

from __future__ import annotations

import importlib.util
import os

import pytest

from pytest_fxgraph.replay import repeated_run
from pytest_fxgraph.replay.seeded_run import pytest_configure


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that loads the plugin under a value of its variable."""

    def load(orders):
        monkeypatch.setenv("FXGRAPH_REVERSED", orders)
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, getattr(os, name))
        spec = importlib.util.spec_from_file_location("repeated_run_again", repeated_run.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize(("orders", "order"), [("", "abc"), ("folders", "abc"), ("tests,folders", "cba")])
def test_the_last_test_runs_first(loaded, orders, order):
    items = list("abc")
    module = loaded(orders)
    module.pytest_collection_modifyitems(items)

    assert "".join(items) == order
    assert module.pytest_configure is pytest_configure


@pytest.mark.parametrize("orders", ["", "tests", "folders", "tests,folders"])
def test_folders_are_listed_from_the_last_entry_to_the_first(loaded, orders, tmp_path):
    for name in "abc":
        (tmp_path / name).write_text("")
    plain = os.listdir(tmp_path)
    loaded(orders)

    expected = plain[::-1] if "folders" in orders else plain
    assert os.listdir(tmp_path) == expected
    with os.scandir(tmp_path) as entries:
        assert [entry.name for entry in entries] == expected
    entries = os.scandir(str(tmp_path))
    assert next(iter(entries)).name == expected[0]
    entries.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
