from __future__ import annotations

import sys
import types

import pytest

from pytest_fxgraph.recorder.session import imported_modules


def test_modules_have_files_and_python_is_left_out(monkeypatch):
    namespace = types.ModuleType("some_namespace")
    namespace.__path__ = ["/there/some_namespace"]
    monkeypatch.setitem(sys.modules, "some_namespace", namespace)
    monkeypatch.setitem(sys.modules, "made_without_a_file", types.ModuleType("made_without_a_file"))

    found = imported_modules()

    assert found["pytest"] == pytest.__file__
    assert found["some_namespace"] == "/there/some_namespace"
    assert not {"sys", "json", "made_without_a_file"} & {*found}
    assert not any("." in name for name in found)
