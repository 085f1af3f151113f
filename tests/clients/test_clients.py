"""Passes of other projects are accepted if they are right, and refused by name if they are spoilt."""

from __future__ import annotations

import re

import pytest

from tests.clients.case import MODULES, Case
from tests.clients.table import CASES, DOCUMENT, LIBRARIES, between_marks, facts, libraries
from tests.clients.verdict import ABSENT, CAUGHT, judge

PINNED = DOCUMENT.parents[1].joinpath("tests/clients/packages.txt").read_text(encoding="utf-8")


def parameter(case: Case) -> object:
    # A gap that is closed fails here as XPASS: its line must go.
    marks = [pytest.mark.xfail(reason=case.gap, strict=True)] if case.gap else []
    return pytest.param(case, id=case.identity, marks=marks)


@pytest.mark.clients
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_a_right_pass_is_accepted_and_a_spoilt_one_refused_by_name(case):
    verdict = judge(case)
    if verdict.kind == ABSENT:
        pytest.skip(f"the wheel {verdict.message} is not installed; .ci/steps/clients installs it")

    assert verdict.kind == CAUGHT, verdict.message


@pytest.mark.clients
def test_most_wheels_are_installed():
    installed = [case for case in CASES if case.missing_wheel() is None]

    assert len(installed) >= 40, "most cases would be skipped; .ci/steps/clients installs the wheels"


def test_the_page_has_a_row_for_every_case():
    rows = [line for line in between_marks().splitlines() if line.startswith("| `")]

    assert len(rows) == len(CASES)
    assert [case.identity for case in CASES if not any(row.startswith(facts(case)) for row in rows)] == []


def test_the_page_names_the_versions_that_the_step_installs():
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", PINNED, re.MULTILINE))
    shown = dict(re.findall(r"^### ([\w.-]+) (\S+)$", between_marks(), re.MULTILINE))

    assert list(shown) == libraries()
    assert {library: version for library, version in shown.items() if pinned.get(library, version) != version} == {}
    assert {library for library in libraries() if library not in pinned} <= {"torch"}


def test_cases_have_names_of_their_own_and_known_wheels():
    names = {case.identity for case in CASES}

    assert len(names) == len(CASES)
    assert {case.library for case in CASES} <= MODULES.keys()
    assert len(LIBRARIES) > 0
