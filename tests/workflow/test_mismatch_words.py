"""The words of a mismatch reach the user wherever the comparison stands."""

from __future__ import annotations

import pytest

HELPER = """
from model import Net


def same(subject, golden):
    assert subject == golden


def test_net(fx_golden):
    same(Net(), fx_golden)
"""

UNITTEST = """
import unittest
import pytest
from model import Net


class NetCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _golden(self, fx_golden):
        self.golden = fx_golden

    def test_net(self):
        self.assertEqual(Net(), self.golden)
"""


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("options", [[], ["--assert=plain"], ["--tb=short"], ["-n0"]], ids=" ".join)
@pytest.mark.parametrize("test", [None, HELPER, UNITTEST], ids=["test", "helper", "unittest"])
def test_field_values_and_command_stand_in_the_assertion(project, test, options):
    if test is not None:
        project.test(test)
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run(*options)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError*torch.relu*torch.sigmoid*", "E*pytest --fx-update-golden*"])
    result.stdout.fnmatch_lines(["*- fx golden golden/test_net/*.yaml -*"])


def test_the_assertion_has_at_most_six_lines(project):
    project.update()
    project.model("torch.sigmoid(torch.exp(y) * 3) + torch.zeros(3).sum(0) - 1")

    result = project.run("--assert=plain", "--tb=short")

    assert 3 <= sum(line.startswith("E ") for line in result.outlines) <= 6


def test_the_frames_of_the_plugin_are_not_shown(project):
    project.update()
    project.model("torch.sigmoid(y)")

    result = project.run()

    result.stdout.no_fnmatch_line("*golden_fixture.py*")
    result.stdout.no_fnmatch_line("*golden_comparison.py*")
    result.stdout.fnmatch_lines([">*assert Net() == fx_golden"])


def test_a_subject_that_answers_itself_is_pointed_out(project):
    project.test(
        """
class Stubborn:
    def __eq__(self, other):
        return False


def test_net(fx_golden):
    assert Stubborn() == fx_golden
"""
    )

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*Stubborn answered the comparison itself*", "E*write `assert fx_golden == sub*"])


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("subject", ["torch.zeros(2)", "3", "'text'", "None", "Net"])
def test_what_is_no_subject_is_a_type_error_that_says_what_is_one(project, subject):
    project.test(f"import torch\nfrom model import Net\n\ndef test(fx_golden):\n    assert {subject} == fx_golden\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*SubjectError: * is no subject*"])
