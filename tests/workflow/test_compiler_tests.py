"""Twelve tests of vLLM's, torchao's and torchtitan's kind: ours take half of the lines, and tell what lost a fusion."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from fixtures import compiler_tests
from fixtures.compiler_tests.broken import CASES, Case
from fixtures.process_groups import needs_fake_group
from tests.architecture.test_code_lines import python_lines

OURS, HAND = (Path(compiler_tests.__file__).with_name(name) for name in ("ours.py", "hand.py"))
CONFTEST = """
import pytest
from fixtures.compiler_tests import broken, models


@pytest.fixture(autouse=True)
def _broken(request, monkeypatch):
    for cases in broken.CASES.values():
        for case in cases:
            if case.test == request.function.__name__:
                monkeypatch.setattr(models, case.name, case.broken)
"""


class Imports:
    """The modules that runs imported. pytester forgets them, and torch and sympy refuse a second import."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.modules.update(sys.modules)

    def keep(self, *, outside: Path) -> None:
        for name, module in self.modules.items():
            if outside not in Path(getattr(module, "__file__", None) or "").parents:
                sys.modules.setdefault(name, module)


@pytest.fixture
def imports(tmp_path_factory):
    """Torn down after pytester, which asks for it later."""
    imports = Imports()
    yield imports
    imports.keep(outside=tmp_path_factory.getbasetemp())


@pytest.fixture
def run(imports, project):
    """Return a function that runs pytest on the project."""

    def run(*options: str) -> pytest.RunResult:
        arguments = "-p", "no:randomly", "-p", "no:hypothesispytest", *options
        result = project.pytester.runpytest_inprocess(*arguments, plugins=[imports])
        imports.keep(outside=project.path)
        return result

    return run


def failures(result: pytest.RunResult) -> dict[str, str]:
    """Return the message of each test that failed, by its name."""
    reports = result.reprec.getreports("pytest_runtest_logreport")
    return {report.head_line: report.longreprtext for report in reports if report.failed}


def unnamed(cases: list[Case], told: dict[str, str]) -> dict[str, list[str]]:
    """Return the reasons that the message of a test lacks, with the message."""
    lacking = {case.test: [reason for reason in case.reasons if reason not in told[case.test]] for case in cases}
    return {test: [*reasons, told[test]] for test, reasons in lacking.items() if reasons}


def functions(file: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def lines_of(file: Path, case: Case) -> int:
    """Return the lines of a test. Imports, models and the backend by hand count for no test."""
    function, source = functions(file)[case.test], file.read_text(encoding="utf-8").splitlines()
    return python_lines("\n".join(source[function.lineno - 1 : function.end_lineno]))


@pytest.mark.slow
@needs_fake_group
@pytest.mark.parametrize("kind", CASES)
def test_our_tests_pass_and_tell_what_lost_the_fusion(kind, run, project):
    project.test(OURS.read_text(encoding="utf-8"), "test_ours.py")
    cases, chosen = CASES[kind], [f"test_ours.py::{case.test}" for case in CASES[kind]]

    run("--fx-update-golden", *chosen).assert_outcomes(passed=len(cases))
    goldens = project.goldens()
    if goldens:
        run(*(f"test_ours.py::{Path(path).stem}" for path in goldens)).assert_outcomes(passed=len(goldens))
    project.write("conftest.py", CONFTEST)
    told = failures(run(*chosen))

    assert told.keys() == {case.test for case in cases}
    assert unnamed(cases, told) == {}


@pytest.mark.parametrize("kind", CASES)
def test_our_tests_take_at_most_half_of_the_lines(kind):
    counted = {case.test: (lines_of(OURS, case), lines_of(HAND, case)) for case in CASES[kind]}
    for test, (ours, hand) in counted.items():
        print(f"{test}: {ours} lines, {hand} by hand")

    assert [test for test, (ours, hand) in counted.items() if ours * 2 > hand] == []


def test_the_page_has_the_numbers_of_lines():
    page = Path(__file__).parents[2].joinpath("docs", "how-to", "compiler-backend.md").read_text(encoding="utf-8")
    counted = [(lines_of(HAND, case), lines_of(OURS, case)) for case in chain.from_iterable(CASES.values())]

    assert re.findall(r"\| (\d+), (\d+) \|$", page, re.MULTILINE) == [(f"{hand}", f"{ours}") for hand, ours in counted]
    hand, ours = map(sum, zip(*counted, strict=True))
    assert f"take {ours} lines in place of {hand};" in page


@needs_fake_group
@pytest.mark.long
@pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))),
    reason="the tests by hand run what Inductor generates, and this machine has no C++ compiler",
)
def test_tests_by_hand_pass_and_fail_without_the_reason(run, project):
    project.test(HAND.read_text(encoding="utf-8"), "test_hand.py")
    cases = [*chain.from_iterable(CASES.values())]

    run("test_hand.py").assert_outcomes(passed=len(cases))
    project.write("conftest.py", CONFTEST)
    told = failures(run("test_hand.py"))

    assert unnamed(cases, told).keys() == told.keys() == {case.test for case in cases}
