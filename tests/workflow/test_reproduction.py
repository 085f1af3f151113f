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
    command = [sys.executable, script.name]
    return subprocess.run(command, cwd=script.parent, capture_output=True, text=True, check=False, timeout=120)


def test_the_script_shows_the_mismatch_without_the_tests(project):
    result, script = script_of(project)

    result.stdout.fnmatch_lines(["E*to reproduce it without the tests: python *found*repro.py"])
    run = ran(script)
    assert run.returncode == 1, run.stderr
    assert "output: Tensor-likes are not close!" in run.stdout
    assert "import fxcore" not in script.read_text()
    assert "pytest_fxgraph" not in script.read_text()


def test_the_script_ends_well_once_the_graph_is_right(project):
    _, script = script_of(project)
    script.write_text(script.read_text().replace("torch.tanh(", "torch.sigmoid("))

    run = ran(script)

    assert (run.returncode, run.stdout.strip()) == (0, "model and graph agree"), run.stderr


@pytest.mark.parametrize("options", [", modes=('train',)", ", grads=True", ", samples=2, seed=3"])
def test_modes_gradients_and_samples_are_reproduced(project, options):
    _, script = script_of(project, options=options)

    run = ran(script)

    assert run.returncode == 1, run.stderr
    assert "output: " in run.stdout
    assert ("gradient of linear.weight: " in run.stdout) == ("grads" in options)


def test_a_model_that_cannot_be_pickled_is_reproduced_by_what_it_returned(project):
    _, script = script_of(project, more=LOCAL, model="net()")

    run = ran(script)

    assert "the model itself could not be pickled" in script.read_text()
    assert run.returncode == 1, run.stderr
    assert "output: Tensor-likes are not close!" in run.stdout


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
