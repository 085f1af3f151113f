"""`code="exact"`, or the ini key fx_code: goldens without the generated code, except at level exact."""

from __future__ import annotations

import re

import pytest

from pytest_fxgraph.command.main import main

GOLDEN = "test_net/test_net.yaml"
TEST = """
import pytest
from model import Net

{marker}
def test_net(fx_golden):
    assert Net() == fx_golden({options})
"""


def golden(project) -> str:
    return project.goldens()[GOLDEN].decode()


@pytest.mark.parametrize(
    ("options", "marker", "ini"),
    [('code="exact"', "", ""), ("", '@pytest.mark.fx(code="exact")', ""), ("", "", "fx_code = exact\n")],
)
def test_a_golden_at_another_level_holds_no_code(project, options, marker, ini):
    project.pytester.makeini(f"[pytest]\npythonpath = .\n{ini}")
    project.test(TEST.format(options=options, marker=marker))

    project.update().assert_outcomes(passed=1)

    assert "\ncode:" not in golden(project)
    assert golden(project).endswith("\nend: true\n")
    project.run().assert_outcomes(passed=1)


def test_the_command_for_a_golden_without_code_records_the_code(project, monkeypatch, capsys):
    project.pytester.makeini("[pytest]\npythonpath = .\nfx_code = exact\n")
    project.update().assert_outcomes(passed=1)
    monkeypatch.chdir(project.path)
    capsys.readouterr()
    assert main(["show", "--code", f"golden/{GOLDEN}"]) == 2
    command = re.search("remove it and record it with `pytest (.*)`", capsys.readouterr().err)[1]

    project.path.joinpath("golden", GOLDEN).unlink()
    project.run(*command.split()).assert_outcomes(passed=1)

    assert main(["show", "--code", f"golden/{GOLDEN}"]) == 0
    assert "def forward(self, x):" in capsys.readouterr().out
    project.run().assert_outcomes(passed=1)


def test_a_golden_at_level_exact_holds_the_code(project):
    project.test(TEST.format(options='code="exact", level="exact"', marker=""))

    project.update().assert_outcomes(passed=1)

    assert "\ncode: |\n  def forward(self, x):\n" in golden(project)
    project.run().assert_outcomes(passed=1)


def test_a_golden_with_code_matches_as_it_is_and_one_without_does_too(project):
    project.update()
    with_code = golden(project)
    project.test(TEST.format(options='code="exact"', marker=""))
    project.update().assert_outcomes(passed=1)
    assert golden(project) == with_code
    project.model("torch.sigmoid(y)")
    project.update().assert_outcomes(passed=1)
    without_code = golden(project)
    assert "\ncode:" not in without_code
    project.test()

    project.update().assert_outcomes(passed=1)

    assert golden(project) == without_code


def test_exact_misses_the_code_of_a_golden_without(project):
    project.test(TEST.format(options='code="exact"', marker=""))
    project.update()
    project.test(TEST.format(options='level="exact"', marker=""))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*test_net.yaml does not match: it holds no generated code: update once"])
    project.update().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_names_are_kept_without_code(project):
    project.test(TEST.format(options='code="exact"', marker=""))
    project.model("torch.relu(y + 1) + 2")
    project.update()
    before = golden(project).splitlines()
    project.model("torch.relu((y + 3) + 1) + 2")

    project.update()

    assert len(set(golden(project).splitlines()) ^ set(before)) == 3


def test_another_value_is_refused(project):
    project.test(TEST.format(options='code="never"', marker=""))

    result = project.run()

    result.stdout.fnmatch_lines(["*argument code: expected one of folded, always, exact, got 'never'"])


LAYERS = """
import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x):
        return torch.relu(torch.neg(x)) + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.parametrize(("code", "times"), [("folded", 1), ("always", 4)])
def test_code_is_folded_along_with_its_blocks_unless_it_is_asked_for_whole(project, code, times):
    project.write("model.py", LAYERS)
    project.test(TEST.format(options=f'code="{code}"', marker=""))

    project.update().assert_outcomes(passed=1)

    graph, written = golden(project).split("\ncode: |\n")
    assert graph.count("torch.relu(") == 1
    assert written.count("torch.relu(") == times
    project.run().assert_outcomes(passed=1)
