"""A table of tests that only some versions of torch and Python can run names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.torch_versions import EXEMPTIONS, Exemption

TESTS = Path(__file__).parent.parent
NAMED = sorted(
    {(file, name.partition("[")[0]) for each in EXEMPTIONS for file in each.tests for name in each.tests[file]}
)


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_every_test_that_is_exempt_is_there(file, name):
    text = TESTS.joinpath(file).read_text(encoding="utf-8")

    assert name == "*" or re.search(rf"^def {name}\(", text, re.MULTILINE)


def test_a_function_is_named_with_all_its_cases_or_with_one():
    exemption = Exemption(True, "a reason", {"a/test_b.py": ["test_all", "test_one[x-1]"], "test_whole.py": ["*"]})

    named = ["a/test_b.py::test_all", "a/test_b.py::test_all[y]", "a/test_b.py::test_one[x-1]", "test_whole.py::test_z"]
    assert [name for name in named if exemption.names(f"tests/{name}")] == named
    others = ["a/test_b.py::test_one[x-2]", "a/test_b.py::test_other", "a/test_c.py::test_all"]
    assert not any(exemption.names(f"tests/{name}") for name in others)
