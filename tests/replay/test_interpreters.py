from __future__ import annotations

import os
import sys

import pytest

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.interpreters import Interpreter, environment_for, foreign_modules


def interpreter(search_path=(), editable=None):
    return Interpreter("python", "3.12.1 (main)", {"torch": "2.13.0"}, search_path, editable or {})


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_an_interpreter_tells_its_releases_without_importing_torch():
    found = Interpreter.ask(sys.executable)

    assert found.title.startswith(f"Python {sys.version.split()[0]}, torch 2.")
    assert found.releases["pytest"] == pytest.__version__


def test_releases_have_names_in_several_spellings(tmp_path):
    path = tmp_path / "python"
    releases = '{"PyTest": "9", "pytest_fxgraph": "1", "Torch": "2.13.0+cpu", "": "0"}'
    path.write_text(f'#!/bin/sh\necho a warning; echo \'["", "3.12.1 (main)", {releases}, [], {{}}]\'')
    path.chmod(0o755)

    assert Interpreter.ask(str(path)).title == "Python 3.12.1, torch 2.13.0+cpu"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "no such file or directory; name an interpreter"),
        ("#!/bin/sh\necho no Python here >&2; exit 3", "no Python here; name an interpreter of Python"),
        ('#!/bin/sh\necho \'["", "3.12", {"pytest": "9"}, [], {}]\'', "pytest-fxgraph, torch not installed there"),
        ("#!/bin/sh\necho first >&2; echo last >&2", ": last; name an interpreter of Python"),
        ("#!/bin/sh\necho words", "it told nothing; name an interpreter of Python"),
    ],
)
def test_an_interpreter_that_cannot_record_is_an_error(tmp_path, script, words):
    path = tmp_path / "python"
    if script is not None:
        path.write_text(script)
        path.chmod(0o755)

    with pytest.raises(RecordingError, match=words):
        Interpreter.ask(str(path))


def test_import_roots_come_from_editable_installs_and_from_src(tmp_path):
    checkout = write(tmp_path / "checkout", "src/shop/__init__.py", "lib/other/__init__.py", "plugin/entry.py")
    venv = checkout / ".venv/lib/python3.12/site-packages"
    found = interpreter(
        [str(checkout / "lib"), str(venv), "/usr/lib/python3.12"],
        {"entry": str(checkout / "plugin/entry.py"), "away": "/elsewhere/away", "a.b": str(checkout / "names/a/b")},
    )

    assert found.import_roots(checkout) == ["lib", "plugin", "names", "src"]
    assert interpreter().import_roots(tmp_path) == []
    assert interpreter().import_roots(write(tmp_path / "single", "src/module.py")) == ["src"]
    assert interpreter().import_roots(write(tmp_path / "empty", "src/notes.txt", "src/deep/er/module.py")) == []


def test_a_tree_precedes_the_checkout_in_the_search_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "checkout/lib"), "/elsewhere"]))

    given = environment_for(tmp_path / "tree", tmp_path / "checkout", ["src", "lib"])

    tree = tmp_path / "tree"
    assert given["PYTHONPATH"].split(os.pathsep) == [str(tree / "src"), str(tree / "lib"), "/elsewhere"]


def test_modules_of_the_checkout_and_installed_copies_are_foreign(tmp_path):
    tree = write(tmp_path / "tree", "src/shop/__init__.py", "tests/__init__.py")
    checkout = tmp_path / "checkout"
    modules = {
        "conftest": str(tree / "conftest.py"),
        "torch": str(checkout / ".venv/lib/python3.12/site-packages/torch/__init__.py"),
        "helper": str(checkout / "helper.py"),
        "shop": "/usr/lib/python3.12/site-packages/shop/__init__.py",
    }

    found = foreign_modules(modules, tree, ["src"], [checkout])

    assert [*found] == ["helper", "shop"]
    assert foreign_modules({"shop": str(tree / "src/shop/__init__.py")}, tree, ["src"], [checkout]) == {}


def test_an_installed_module_is_foreign_if_the_tree_has_one_of_its_name(tmp_path):
    tree = write(tmp_path / "tree", "src/single.py", "top/__init__.py", "src/shop/__init__.py")
    installed = "/usr/lib/python3/dist-packages"
    modules = {name: f"{installed}/{name}.py" for name in ("single", "top", "shop", "torch")}
    inside = {"shop": str(tree / ".venv/lib/site-packages/shop.py"), "tool": str(tree / ".venv/site-packages/tool.py")}

    assert [*foreign_modules(modules, tree, ["src"], [])] == ["single", "top", "shop"]
    assert [*foreign_modules(inside, tree, ["src"], [])] == ["shop"]
