"""`--fx-repro DIR`: a mismatch as a script that runs without the tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

TEST = """
import torch
from model import Net


def sharpened(graph_module):
    for node in graph_module.graph.nodes:
        if node.target is torch.sigmoid:
            node.target = torch.tanh
    graph_module.recompile()
    return graph_module


{more}
def test_net(fx_transform):
    torch.manual_seed(0)
    fx_transform(sharpened, {model}, torch.rand(2, 4) + 1{options})
"""
LOCAL = """
def net():
    class Inner(Net):
        pass
    return Inner()
"""


def script_of(project, **parts):
    project.model("torch.sigmoid(y)")
    project.test(TEST.format(**{"more": "", "model": "Net()", "options": "", **parts}))
    result = project.run("--fx-repro", "found")
    result.assert_outcomes(failed=1)
    (script,) = project.path.glob("found/*/repro.py")
    return result, script


def ran(script):
    """Run a script in a process of its own, where nothing of the tests is loaded."""
    command = [sys.executable, script.name]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow
def test_the_script_shows_the_mismatch_without_the_tests(project):
    result, script = script_of(project)

    result.stdout.fnmatch_lines(["E*to reproduce it without the tests: python *found*repro.py"])
    run = ran(script)
    assert run.returncode == 1, run.stderr
    assert "output has other values in the graph than in eager" in run.stdout
    assert "import fxcore" not in script.read_text()


def test_the_script_ends_well_once_the_graph_is_right(project, run_again):
    _, script = script_of(project)
    script.write_text(script.read_text().replace("torch.tanh(", "torch.sigmoid("))

    run = run_again(script)

    assert (run.returncode, run.stdout.strip()) == (0, "model and graph agree"), run.stderr


@pytest.mark.parametrize("options", [", modes=('train',)", ", grads=True", ", samples=2, seed=3"])
def test_modes_gradients_and_samples_are_reproduced(project, options, run_again):
    _, script = script_of(project, options=options)

    run = run_again(script)

    assert run.returncode == 1, run.stderr
    assert "output has other values" in run.stdout
    assert ("gradient of linear.weight has other values" in run.stdout) == ("grads" in options)


@pytest.mark.slow
def test_a_model_that_cannot_be_pickled_is_reproduced_by_what_it_returned(project):
    _, script = script_of(project, more=LOCAL, model="net()")

    run = ran(script)

    assert "the model itself could not be pickled" in script.read_text()
    assert run.returncode == 1, run.stderr
    assert "output has other values in the graph than in eager" in run.stdout


def test_nothing_is_written_unless_asked_for(project):
    project.model("torch.sigmoid(y)")
    project.test(TEST.format(more="", model="Net()", options=""))

    project.run().assert_outcomes(failed=1)

    assert not list(project.path.rglob("repro.py"))


def test_a_place_that_cannot_be_written_to_is_told_beside_the_mismatch(project):
    project.model("torch.sigmoid(y)")
    project.test(TEST.format(more="", model="Net()", options=""))
    project.write("found", "a file in the way")

    result = project.run("--fx-repro", "found")

    result.stdout.fnmatch_lines(["E*eager and graph after sharpened differ*", "E*no script that reproduces it could*"])


MISMATCHES = {
    "aliasing": ("x.view(-1)", "x.view(-1).clone()", "output shares storage with input 0 in eager, with nothing"),
    "aliasing of state": (
        "self.linear.weight",
        "self.linear.weight.clone()",
        "output shares storage with linear.weight",
    ),
    "stride": ("(y * 2).t().contiguous()", "(y * 2).t()", "output has stride (2, 1) in eager, (1, 3) in the graph"),
    "random numbers": ("torch.rand_like(y) * 0", "torch.zeros_like(y)", "torch's CPU generator drew otherwise"),
    "an input written to": (
        "x.add_(1).sum()",
        "(x + 1).sum()",
        "input 0 was changed in place by eager, not by the graph",
    ),
    "a buffer": (
        "self.seen.add_(x.sum()).sum()",
        "(self.seen + x.sum()).sum()",
        "buffer seen was changed by eager, not",
    ),
    "a buffer that the graph lacks": (
        "self.seen.add_(1).sum() * 0 + x",
        "x + 0",
        "buffer seen was changed by eager, and the graph has no such state",
    ),
    "gradients of an input": ("y + x.sum()", "y + x.detach().sum()", "gradient of input 0 has other values"),
    "gradients of a parameter": ("y * 2", "y + y.detach()", "gradient of linear.weight has other values"),
    "gradients where an input is written to": (
        "x.add_(1) * self.linear.bias.sum()",
        "x.add_(1) * self.linear.bias.detach().sum()",
        "gradient of linear.bias exists in eager and not in the graph",
    ),
    "a structure": ("{'a': y, 'b': [x * 1]}", "{'a': y, 'b': [x * 2]}", "output['b'][0] has other values"),
    "a missing part": ("{'a': y, 'b': x * 1}", "{'a': y}", "the graph lacks ['b']"),
    "dtype": ("y * 1", "(y * 1).double()", "output has dtype torch.float32 in eager, torch.float64 in the graph"),
}
OTHERWISE = """
import torch
from torch import nn
import fxcore


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        y = self.linear(x)
        return {body}


class Other(Net):
    def forward(self, x):
        y = self.linear(x)
        return {other}
"""
GRAPH_OF_ANOTHER = """
import torch
from model import Net, Other
import fxcore

{local}
def test_net(fx_equivalence):
    model, other = {model}, Other()
    other._parameters, other._buffers, other._modules = model._parameters, model._buffers, model._modules
    fx_equivalence(model, torch.arange(8.0).reshape(2, 4), graph=fxcore.symbolic_trace(other){options})
"""


NOT_PICKLED = ("aliasing of state", "random numbers", "a buffer", "gradients of a parameter")


# Each takes three starts of Python: a sample in every run, the others with -m long.
SAMPLE = (
    ("aliasing", "Net()"),
    ("a buffer", "Net()"),
    ("gradients of a parameter", "Net()"),
    ("random numbers", "net()"),
)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        pytest.param(kind, model, marks=[] if (kind, model) in SAMPLE else [pytest.mark.long])
        for kind, model in [*((kind, "Net()") for kind in MISMATCHES), *((kind, "net()") for kind in NOT_PICKLED)]
    ],
)
def test_every_kind_of_mismatch_is_shown_by_its_script(project, kind, model, run_again):
    body, other, words = MISMATCHES[kind]
    options = ", grads=True" if kind.startswith("gradients") else ""
    project.write("model.py", OTHERWISE.format(body=body, other=other))
    project.test(GRAPH_OF_ANOTHER.format(model=model, options=options, local=LOCAL))
    project.run("--fx-repro", "found").assert_outcomes(failed=1)
    (script,) = project.path.glob("found/*/repro.py")

    run = run_again(script)

    assert run.returncode == 1, run.stderr
    assert words in run.stdout
    assert ("could not be pickled" in script.read_text()) == (model == "net()")


def test_a_graph_that_an_interpreter_of_the_users_runs_is_reproduced(project, run_again):
    project.model("torch.sigmoid(y)")
    project.write(
        "steps.py",
        "import torch, fxcore\n\n\nclass Sharpened(fxcore.Interpreter):\n"
        "    def call_function(self, target, args, kwargs):\n"
        "        target = torch.tanh if target is torch.sigmoid else target\n"
        "        return super().call_function(target, args, kwargs)\n",
    )
    project.test(
        "import torch\nfrom model import Net\nfrom steps import Sharpened\n\n\ndef test_net(fx_transform):\n"
        "    fx_transform(Sharpened, Net(), torch.rand(2, 4) + 1)\n"
    )
    project.run("--fx-repro", "found").assert_outcomes(failed=1)
    (script,) = project.path.glob("found/*/repro.py")

    run = run_again(script)
    assert run.returncode == 1, run.stderr
    assert "output has other values in the graph than in eager" in run.stdout

    project.write("steps.py", "import fxcore\n\n\nclass Sharpened(fxcore.Interpreter):\n    pass\n")
    assert run_again(script).stdout.strip() == "model and graph agree"
