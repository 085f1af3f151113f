"""The hooks, as the examples in their manuals use them."""

from __future__ import annotations

import json

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


def test_equivalence_runs_what_an_adapter_makes_of_an_object(project):
    project.write("pipeline.py", ADAPT)
    project.write(
        "conftest.py",
        "from pipeline import Pipeline\n\n\ndef pytest_fxgraph_adapt(obj):\n"
        "    return obj.model if isinstance(obj, Pipeline) else None\n",
    )
    project.test(
        """
import pytest
import torch
from model import Net
from pipeline import Pipeline


def to_sigmoid(graph_module):
    for node in graph_module.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.sigmoid
    graph_module.recompile()


def test_net(fx_equivalence, fx_transform, fx_ops):
    torch.manual_seed(0)  # relu makes zeros alone of 1 in 30 models, and no check could fail on those
    model = Net()
    fx_equivalence(Pipeline(model), torch.randn(2, 4), graph=Pipeline(model))
    fx_transform(lambda graph_module: None, Pipeline(model), torch.randn(2, 4), allow_vacuous=True)
    assert fx_ops(Pipeline(model)).count(torch.relu) == 1
    with pytest.raises(AssertionError):
        fx_transform(to_sigmoid, Pipeline(model), torch.randn(2, 4))
"""
    )

    project.run().assert_outcomes(passed=1)


def test_an_adapter_says_how_a_module_is_made_a_graph_for_equivalence_too(project):
    project.write(
        "conftest.py",
        """
import torch
import fxcore
from model import Net


def pytest_fxgraph_adapt(obj):
    if isinstance(obj, Net):
        return fxcore.symbolic_trace(lambda x: torch.sigmoid(x[:, :3]))
""",
    )
    project.test(
        "import torch\nfrom model import Net\n\n\n"
        "def test_net(fx_equivalence):\n    fx_equivalence(Net(), torch.randn(2, 4))\n"
    )

    project.run().assert_outcomes(failed=1)


KERNEL = """
import torch
import fxcore


@fxcore.wrap
def kernel(x):
    return x


def test_net(fx_golden):
    assert (lambda x: torch.add(kernel(x), x)) == fx_golden
"""


def test_functions_are_named_by_the_users_hook(project):
    project.test(KERNEL)
    project.write(
        "conftest.py",
        "def pytest_fxgraph_target_name(target):\n    return 'acme.kernel' if target.__name__ == 'kernel' else None\n",
    )

    project.update().assert_outcomes(passed=1)

    text = project.goldens()["test_net/test_net.yaml"].decode()
    assert "= acme.kernel(%x)" in text
    assert "= torch.add(" in text


def test_operators_are_asked_for_by_the_names_that_hooks_give(project):
    project.write(
        "conftest.py",
        "import torch\n\ndef pytest_fxgraph_target_name(target):\n"
        "    return 'acme.rectify' if target is torch.relu else None\n",
    )
    project.test(OPERATORS)

    project.run().assert_outcomes(passed=2)


OPERATORS = """
import torch
from torch import nn
from model import Net

def test_operators(fx_ops):
    assert fx_ops(Net()).count("acme.rectify") == 1
    assert fx_ops(Net(), recursive=False).count("torch.relu") == 0

def test_transform(fx_transform):
    torch.manual_seed(0)  # other weights may give nothing but zeros
    result = fx_transform(lambda gm: gm, Net(), torch.randn(64, 4), allow_vacuous=True)
    result.assert_ops(unchanged="acme.*")
"""


def test_a_name_that_is_none_is_refused(project):
    project.test(KERNEL)
    project.write("conftest.py", "def pytest_fxgraph_target_name(target):\n    return 3\n")

    result = project.run()

    result.stdout.fnmatch_lines(
        ["E*DocumentError: *pytest_fxgraph_target_name gave 3 for *; expected a name, or None*"]
    )


def test_every_hook_has_a_section_of_its_own_in_summary_and_report(project):
    section = "def pytest_fxgraph_report_section(outcomes):\n    return '{name}: ' + outcomes[0].status + '\\nmore'\n"
    project.write("conftest.py", section.format(name="outer"))
    project.write("tests/conftest.py", section.format(name="inner"))
    project.test(name="tests/test_net.py")

    result = project.run("tests", "--fx-report=fx.json")

    result.stdout.fnmatch_lines(["inner: missing", "more", "outer: missing", "more"])
    report = json.loads((project.path / "fx.json").read_text())
    assert report["sections"] == ["inner: missing\nmore", "outer: missing\nmore"]


def test_a_run_without_comparisons_asks_nobody_for_a_section(project):
    project.write("conftest.py", "def pytest_fxgraph_report_section(outcomes):\n    raise RuntimeError\n")
    project.test("def test_nothing():\n    pass\n")

    project.run().assert_outcomes(passed=1)
