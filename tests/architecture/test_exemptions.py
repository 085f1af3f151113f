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


def test_a_function_is_named_with_all_its_cases_or_with_some():
    names = ["test_all", "test_one[x-1]", "test_some[...fast...]"]
    exemption = Exemption(True, "a reason", {"a/test_b.py": names, "test_whole.py": ["*"]})

    named = ["a/test_b.py::test_all", "a/test_b.py::test_all[y]", "a/test_b.py::test_one[x-1]", "test_whole.py::test_z"]
    named += ["a/test_b.py::test_some[fast]", "a/test_b.py::test_some[1-fast-x]"]
    assert [name for name in named if exemption.names(f"tests/{name}")] == named
    others = ["a/test_b.py::test_one[x-2]", "a/test_b.py::test_other", "a/test_c.py::test_all"]
    others += ["a/test_b.py::test_some[slow]", "a/test_b.py::test_some", "a/test_b.py::test_other[fast]"]
    assert not any(exemption.names(f"tests/{name}") for name in others)


def test_no_exemption_for_a_version_takes_a_whole_file():
    """A file may be skipped for what the machine lacks; a version of torch.fx differs in some tests."""
    whole = {file for each in EXEMPTIONS for file, names in each.tests.items() if "*" in names}

    assert whole <= {"fxcore/test_torch_ao.py"}
