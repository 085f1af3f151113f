"""The wiring of the fixtures: the hooks around tests, the words without torch, and the hooks of a user."""

from __future__ import annotations

import builtins
import re
from types import SimpleNamespace

import pytest

from pytest_fxgraph import fixtures
from pytest_fxgraph.fixtures import CURRENT_ITEM, AroundTests, attempt_of, begun_attempt, end_attempt, follow_tests


def new_item():
    return SimpleNamespace(stash=pytest.Stash())


def item_with_a_failed_check(monkeypatch):
    item = new_item()

    def close():
        raise AssertionError("a failed check")

    monkeypatch.setattr(attempt_of(item), "close", close)
    return item


@pytest.mark.parametrize(
    ("is_own", "when", "excinfo", "has_failed"),
    [
        (True, "call", None, True),
        (False, "call", None, False),
        (True, "setup", None, False),
        (True, "call", "the test's own", False),
    ],
)
def test_the_test_that_registers_the_hooks_fails_for_its_failed_checks(monkeypatch, is_own, when, excinfo, has_failed):
    item = item_with_a_failed_check(monkeypatch)
    call = SimpleNamespace(when=when, excinfo=excinfo)

    AroundTests(item if is_own else new_item()).pytest_runtest_makereport(item, call)

    assert (call.excinfo is not excinfo) is has_failed
    assert not has_failed or str(call.excinfo.value) == "a failed check"


def test_a_test_that_the_hooks_see_from_its_setup_on_is_asked_once(monkeypatch):
    item = item_with_a_failed_check(monkeypatch)
    item.config = SimpleNamespace(stash=pytest.Stash())
    around = AroundTests(item)

    around.pytest_runtest_setup(item)
    assert begun_attempt(item) is None
    assert item.config.stash[CURRENT_ITEM] is item
    item = item_with_a_failed_check(monkeypatch)
    with pytest.raises(AssertionError, match="a failed check"):
        around.pytest_runtest_call(item)
    call = SimpleNamespace(when="call", excinfo=None)
    around.pytest_runtest_makereport(item, call)
    assert call.excinfo is None


def test_hooks_do_nothing_for_a_test_without_an_attempt():
    item = new_item()

    AroundTests(None).pytest_runtest_call(item)
    AroundTests(None).pytest_runtest_teardown(item)
    end_attempt(item)

    assert begun_attempt(item) is None


def test_the_hooks_are_registered_for_the_first_test_that_asks():
    first, second = new_item(), new_item()
    config = SimpleNamespace(pluginmanager=pytest.PytestPluginManager(), stash=pytest.Stash())

    for item in (first, second):
        follow_tests(SimpleNamespace(_pyfuncitem=item, config=config))

    assert config.stash[CURRENT_ITEM] is first
    assert config.pluginmanager.get_plugin("fxgraph-around-tests").item is first


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError(name="torch"), "torch is not installed"),
        (ModuleNotFoundError(name="sympy"), "torch needs sympy, which is not installed"),
        (OSError("a library\nis missing"), r"torch cannot be imported \(a library is missing\)"),
    ],
)
def test_without_torch_a_fixture_fails_with_one_line(error, words):
    original = builtins.__import__

    def without_torch(name, *args, **kwargs):
        if name == "torch":
            raise error
        return original(name, *args, **kwargs)

    caught = None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(builtins, "__import__", without_torch)
        try:
            fixtures._require_torch("fx_ops")
        except pytest.fail.Exception as failed:
            caught = failed

    assert re.match(f"^fx_ops needs torch, and {words}: install torch", str(caught))
    assert caught.pytrace is False


@pytest.mark.parametrize("hookimpls", [[], ["one"]])
def test_a_hook_without_an_implementation_is_left_out(hookimpls):
    class Hook:
        def get_hookimpls(self):
            return hookimpls

        def __call__(self, **arguments):
            return arguments

    hooks = SimpleNamespace(
        **{f"pytest_fxgraph_{name}": Hook() for name in ("adapt", "compare_outputs", "target_name")}
    )
    config = SimpleNamespace(getoption=lambda name: None, stash=pytest.Stash())
    given = fixtures._session_arguments(SimpleNamespace(ihook=hooks, config=config, nodeid="t"))
    own_names = fixtures._own_names(hooks)

    if not hookimpls:
        assert given["adapt"] is given["compare_outputs"] is own_names is None
        return
    assert own_names(1) == {"target": 1}
    assert given["adapt"](2) == {"obj": 2}
    assert given["compare_outputs"](1, 2, "y") == {"expected": 1, "obtained": 2, "path": "y"}
