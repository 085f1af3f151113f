"""pytest's hook rewrites the asserts of installed plugins and reads byte code slowly. Our files are loaded past it."""

from __future__ import annotations

import pytest

_TEST = """
import sys

def loader_of(name):
    return type(sys.modules[name].__loader__).__name__

def test_loaders():
    assert loader_of("pytest_fxgraph.plugin") == "SourceFileLoader"
    assert loader_of(__name__) == "AssertionRewritingHook"
"""


def test_files_of_the_plugin_are_loaded_by_python_and_tests_by_the_rewriting_hook(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(_TEST)

    # With `-p`, pytest rewrites the asserts of the named module, as it does for each module of an installed plugin.
    result = pytester.runpytest_subprocess("-p", "pytest_fxgraph.plugin")

    result.assert_outcomes(passed=1)
