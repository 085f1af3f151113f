"""The hooks, as the examples in their manuals use them."""

from __future__ import annotations

ADAPT = """
class Pipeline:
    def __init__(self, model):
        self.model = model
"""


def test_an_adapter_turns_an_object_of_the_users_into_a_subject(project):
    project.write("pipeline.py", ADAPT)
    project.write(
        "conftest.py",
        """
from pipeline import Pipeline


def pytest_fxgraph_adapt(obj):
    if isinstance(obj, Pipeline):
        return obj.model
""",
    )
    project.update()
    of_the_model = project.goldens()
    project.test(
        "from model import Net\nfrom pipeline import Pipeline\n\n\n"
        "def test_net(fx_golden):\n    assert Pipeline(Net()) == fx_golden\n"
    )

    result = project.run()

    result.assert_outcomes(passed=1)
    assert project.goldens() == of_the_model


def test_an_adapter_that_knows_nothing_leaves_a_subject_error(project):
    project.write("conftest.py", "def pytest_fxgraph_adapt(obj):\n    return None\n")
    project.test("def test_net(fx_golden):\n    assert 3 == fx_golden\n")

    result = project.run()

    result.stdout.fnmatch_lines(["E*SubjectError: an object of builtins.int is no subject*"])


def test_every_normalizer_sees_what_the_one_before_it_made(project):
    normalizer = """
from dataclasses import replace


def pytest_fxgraph_normalize(document):
    return replace(document, notes=(*document.notes, "{note} after " + str(len(document.notes))))
"""
    project.write("conftest.py", normalizer.format(note="outer"))
    project.write("tests/conftest.py", normalizer.format(note="inner"))
    project.test(name="tests/test_net.py")

    project.update("tests").assert_outcomes(passed=1)

    text = project.goldens()["tests/test_net/test_net.yaml"].decode()
    assert "inner after 0" in text
    assert "outer after 1" in text
    project.run("tests").assert_outcomes(passed=1)


def test_a_normalizer_that_returns_none_changes_nothing(project):
    project.update()
    project.write("conftest.py", "def pytest_fxgraph_normalize():\n    return None\n")

    project.run().assert_outcomes(passed=1)


def test_outputs_are_compared_by_the_users_hook(project):
    project.test(
        """
import torch
from model import Net


def test_net(fx_equivalence, fx_trace):
    model = Net()
    graph = fx_trace(model)
    for node in graph.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.sigmoid
    graph.recompile()
    fx_equivalence(model, torch.randn(2, 4), graph=graph)
"""
    )
    project.run().assert_outcomes(failed=1)
    project.write("conftest.py", "def pytest_fxgraph_compare_outputs(expected, obtained, path):\n    return ''\n")

    project.run().assert_outcomes(passed=1)
