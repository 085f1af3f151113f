from __future__ import annotations

import sys

import pytest

from pytest_fxgraph.recorder.replacements import Replacements


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "replaced_here.py").write_text("class A:\n    def f(self):\n        return 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "replaced_here"
    sys.modules.pop("replaced_here", None)


def plus_one(function):
    return lambda *args: function(*args) + 1


def test_a_method_is_replaced_from_the_import_of_its_module_to_the_end(module):
    replacements = Replacements()
    replacements.add("kind", [(module, "A.f")], plus_one)
    replacements.begin()
    assert module not in sys.modules
    import replaced_here

    original_class = replaced_here.A
    assert replaced_here.A().f() == 2
    assert "exec_module" not in vars(replaced_here.__loader__)
    replacements.end()
    assert replaced_here.A().f() == 1
    assert replaced_here.A is original_class
    assert replacements not in sys.meta_path
    assert replacements.missing == {}


def test_an_imported_module_is_replaced_at_once(module):
    import replaced_here

    replacements = Replacements()
    replacements.add("kind", [(module, "A.f")], plus_one)
    replacements.begin()
    assert replaced_here.A().f() == 2
    replacements.end()


def test_a_replacement_by_somebody_else_stays(module):
    import replaced_here

    replacements = Replacements()
    replacements.add("kind", [(module, "A.f")], plus_one)
    replacements.begin()
    replaced_here.A.f = lambda self: 7
    replacements.end()
    assert replaced_here.A().f() == 7


@pytest.mark.parametrize("path", ["A.g", "B.f", "g"])
def test_a_missing_function_is_noted_unless_another_place_has_the_kind(module, path):
    import replaced_here  # noqa: F401  # imported before

    replacements = Replacements()
    replacements.add("kind", [(module, path)], plus_one)
    replacements.add("other", [(module, path), (module, "A.f")], plus_one)
    replacements.begin()
    replacements.end()
    assert replacements.missing == {"kind": (module, path)}


def test_two_recordings_and_a_finder_that_asks_all_find_a_module_once_each(module, monkeypatch):
    class AsksAll:
        def find_spec(self, name, path=None, target=None):
            found = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
            return next(filter(None, found), None) if name == module else None

    both = Replacements(), Replacements()
    for each in both:
        each.add("kind", [(module, "A.f")], plus_one)
        each.begin()
    monkeypatch.setattr(sys, "meta_path", [AsksAll(), *sys.meta_path])
    import replaced_here

    assert replaced_here.A().f() == 3
    for each in reversed(both):
        each.end()
    assert replaced_here.A().f() == 1
