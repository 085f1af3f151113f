"""The fixture `fx_trace`."""

from __future__ import annotations

BRANCHING = """
import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x + 1)
"""


def test_a_failure_names_the_users_line_and_nothing_else(project):
    project.write("model.py", BRANCHING)
    project.test("from model import Net\n\n\ndef test_net(fx_trace):\n    fx_trace(Net())\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cannot trace Net: *control flow*", "  model.py:8, in forward: if x.sum() > 0:"])
    result.stdout.no_fnmatch_line("*fxcore/*")


def test_an_error_of_the_users_own_names_its_class(project):
    project.model("{}['missing']")
    project.test("from model import Net\n\n\ndef test_net(fx_trace):\n    fx_trace(Net())\n")

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cannot trace Net: KeyError: 'missing'", "  model.py:13, in forward: return*"])


def test_the_fixture_serves_a_whole_session(project):
    project.test(
        """
import pytest
import fxcore
from model import Net


@pytest.fixture(scope="session")
def graph(fx_trace):
    return fx_trace(Net())


def test_net(graph):
    assert isinstance(graph, fxcore.GraphModule)
"""
    )

    project.run().assert_outcomes(passed=1)
