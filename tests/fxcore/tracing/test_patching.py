from __future__ import annotations

import threading

import pytest

from fxcore.tracing.patching import REPLACEMENTS, Patcher, SharedReplacements


class Base:
    def inherited(self):
        return "base"


def louder(original):
    return lambda *args: original(*args).upper()


def test_attributes_and_globals_are_restored_last_first():
    class Derived(Base):
        pass

    names = {"greet": lambda: "hello"}
    original = names["greet"]

    with Patcher() as patcher:
        patcher.replace(Derived, "inherited", louder)
        patcher.replace(names, "greet", louder)
        patcher.replace(names, "len", lambda function: lambda items: -function(items))
        assert (Derived().inherited(), names["greet"](), names["len"]([1])) == ("BASE", "HELLO", -1)

    assert names == {"greet": original}
    assert "inherited" not in vars(Derived)
    assert Derived().inherited() == "base"


def test_an_error_restores_too():
    names = {"value": 1}

    def fail_with_a_replacement():
        with Patcher() as patcher:
            patcher.replace(names, "value", lambda value: value + 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_with_a_replacement()

    assert names == {"value": 1}


def test_two_that_want_one_replacement_share_it_until_the_last_has_left():
    shared, names = SharedReplacements(), {"value": 1}

    shared.acquire(names, {"value": 2})
    shared.acquire(names, {"value": 2})
    assert names == {"value": 2}
    shared.release(names, ["value"])
    assert names == {"value": 2}
    shared.release(names, ["value"])

    assert names == {"value": 1}


def test_threads_that_come_and_go_leave_nothing_behind():
    names = {"value": 1}

    def come_and_go():
        for _ in range(200):
            with Patcher() as patcher:
                patcher.replace(names, "value", lambda value: value + 1)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert names == {"value": 1}


def test_a_thing_is_visited_once():
    patcher, thing = Patcher(), object()

    assert [patcher.visit_once(thing), patcher.visit_once(thing)] == [True, False]


def test_originals_are_back_while_replacements_are_suspended():
    class Holder:
        pass

    names = {"there": 1}
    with Patcher() as patcher:
        patcher.replace_all(names, {"there": 2})
        patcher.replace_all(Holder, {"new": 3})

        with REPLACEMENTS.suspended(), REPLACEMENTS.suspended():
            assert names == {"there": 1}
            assert not hasattr(Holder, "new")

        assert names == {"there": 2}
        assert Holder.new == 3
    assert names == {"there": 1}
    assert not hasattr(Holder, "new")


def test_the_originals_of_globals_are_the_globals_themselves_where_nothing_is_replaced():
    shared, names = SharedReplacements(), {"value": 1, "other": 5}
    replacements = {"value": 2, "new": 3}

    assert shared.originals_of(names) is names
    shared.acquire(names, replacements)
    assert shared.originals_of(names) == {"value": 1, "other": 5}
    assert names == {"value": 2, "other": 5, "new": 3}
    shared.release(names, replacements)
    assert shared.originals_of(names) is names
    shared.acquire(names, {"value": 4})
    assert shared.originals_of(names) == {"value": 1, "other": 5}
