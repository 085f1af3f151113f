"""Level `cost`: what a graph costs, in its golden, within a budget."""

from __future__ import annotations

# Runs within this process forget the modules that they import, and torch asks for this one on the meta device.
import pytest
import torch._dynamo  # noqa: F401

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, {channels}, 3)
        self.head = nn.Linear({channels}, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x)){cast}
        return self.head(x.mean((2, 3)))
"""
TEST = """
import pytest
import torch
from model import Net


@pytest.mark.fx(level="cost", budget={budget})
def test_net(fx_golden):
    assert Net() == fx_golden({inputs})
"""
INPUTS = "example_inputs=torch.ones(1, 3, 8, 8)"
BUDGET = {"flops": "+1%", "bytes": "+2%", "params": 0, "peak_activation": "+5%", "nodes": "+0"}


@pytest.fixture
def net(project):
    def write(channels=4, cast="", budget=BUDGET, inputs=INPUTS):
        project.write("model.py", MODEL.format(channels=channels, cast=cast))
        project.test(TEST.format(budget=budget, inputs=inputs))
        return project

    return write


@pytest.fixture
def recorded(net):
    """Record the costs of the model, and give what changes model and test."""
    net().update().assert_outcomes(passed=1)
    return net


def lines_of_cost(project):
    (content,) = project.goldens().values()
    lines = content.decode().split("\n")
    return lines[lines.index("cost: |") : lines.index("end: true")]


def test_a_golden_holds_a_line_for_each_module(recorded):
    assert lines_of_cost(recorded()) == [
        "cost: |",
        '  total: flops=8080, read=2424, written=1176, params=122, nodes=4, peak_activation=1920, peak_at=""',
        "  conv: flops=7776, read=1216, written=576, params=112, nodes=1",
        '  "": flops=288, read=1152, written=592, params=0, nodes=2',
        "  head: flops=16, read=56, written=8, params=10, nodes=1",
    ]


def test_the_same_model_matches_and_writes_nothing(recorded):
    project = recorded()
    before = project.goldens()

    project.run().assert_outcomes(passed=1)

    assert project.goldens() == before


def test_an_extra_cast_fails_and_is_named(recorded):
    result = recorded(cast=".double().float()").run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *golden/test_net/test_net.yaml does not match: bytes +*%, peak_activation +*%, nodes +50.00%",
            "  nodes: 4 -> 6 (+50.00%, the budget is 0)",
            "  (root): bytes 1,744 -> 5,200 (+198.17%)",
        ]
    )


def test_a_lost_fusion_fails_and_names_the_module_that_came_back(recorded):
    project = recorded()
    model = (project.path / "model.py").read_text()
    model = model.replace("        self.head", "        self.norm = nn.BatchNorm2d(4).eval()\n        self.head")
    project.write("model.py", model.replace("self.conv(x)", "self.norm(self.conv(x))"))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *does not match: flops +3.56%, bytes +*%, params +6.56%, nodes +25.00%",
            "  norm: flops 0 -> 288 (+288)",
            "  norm: nodes 0 -> 1 (+1)",
        ]
    )


def test_a_doubled_channel_fails_and_accounts_for_each_module(recorded):
    result = recorded(channels=8).run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *does not match: flops +100.00%, bytes +*%, params +98.36%, peak_activation +*%",
            "  flops: 8,080 -> 16,160 (+100.00%, the budget is 1%)",
            "  conv: flops 7,776 -> 15,552 (+100.00%)",
            "  conv: params 112 -> 224 (+100.00%)",
        ]
    )


def test_an_improvement_beyond_the_budget_fails_too(recorded):
    result = recorded(channels=2).run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *does not match: better: flops -50.00%, bytes -*%*; accept"])


def test_what_stays_within_the_budget_passes(recorded):
    budget = {"flops": "50%", "bytes": "+200%", "peak_activation": None, "nodes": 2}

    recorded(cast=".double().float()", budget=budget).run().assert_outcomes(passed=1)


def test_an_update_writes_the_new_costs_and_the_next_run_passes(recorded):
    project = recorded(channels=8)

    project.update().assert_outcomes(passed=1)

    assert "flops=16160" in lines_of_cost(project)[1]
    project.run().assert_outcomes(passed=1)


def test_a_golden_of_another_level_has_no_costs_and_says_so(project, net):
    net(budget={}).test(TEST.format(budget={}, inputs=f'{INPUTS}, level="structure"'))
    project.update().assert_outcomes(passed=1)
    (content,) = project.goldens().values()

    result = net().run()

    assert b"cost:" not in content
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *test_net.yaml does not match: no costs recorded: update"])
    net().update().assert_outcomes(passed=1)
    project.run().assert_outcomes(passed=1)


def test_without_example_inputs_it_is_an_error(net):
    result = net(inputs="").run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *InputsError: level cost needs example inputs: *; write fx_golden(level=*"])


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"flop": 0}, "there is no cost 'flop'; there are flops, bytes, params, peak_activation, nodes"),
        ({"flops": "-1%"}, "flops: '-1%' is no allowance; write '+1%' of the golden's cost*"),
        ([1], "a budget is a dict such as *, not [[]1[]]"),
    ],
)
def test_a_wrong_budget_is_refused(net, budget, words):
    result = net(budget=budget).run()

    result.stderr.fnmatch_lines([f"ERROR: marker fx of test_net.py::test_net, budget: {words}"])
