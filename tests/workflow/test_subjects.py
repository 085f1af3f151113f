"""Whatever holds the same graph matches the same golden."""

from __future__ import annotations

import pytest

SUBJECT = """
import torch
import torch.fx
import fxcore
from fxcore import interop
from model import Net


def test_net(fx_golden):
    assert {subject} == fx_golden
"""


@pytest.mark.sampled(every=3, start=2)
@pytest.mark.parametrize(
    "subject",
    [
        "fxcore.symbolic_trace(Net())",
        "torch.fx.symbolic_trace(Net())",
        "interop.to_torch(fxcore.symbolic_trace(Net()))",
        "fxcore.symbolic_trace(Net()).graph",
        "torch.fx.symbolic_trace(Net()).graph",
    ],
)
def test_a_graph_matches_the_golden_of_its_model(project, subject):
    project.update()
    project.test(SUBJECT.format(subject=subject))

    project.run().assert_outcomes(passed=1)


def test_a_graph_without_its_module_is_documented_without_module_configuration(project):
    project.test(SUBJECT.format(subject="fxcore.Tracer().trace(Net())"))

    project.update().assert_outcomes(passed=1)

    text = project.goldens()["test_net/test_net.yaml"].decode()
    assert "torch.relu" in text
    assert "in_features" not in text
    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize("inputs", ["(torch.zeros(2, 4),)", "torch.zeros(2, 4)"])
def test_example_inputs_add_shapes(project, inputs):
    project.test(SUBJECT.format(subject="Net()").replace("== fx_golden", f"== fx_golden(example_inputs={inputs})"))

    project.update().assert_outcomes(passed=1)

    assert "float32[2, 3]" in project.goldens()["test_net/test_net.yaml"].decode()
    project.run().assert_outcomes(passed=1)


def test_example_inputs_of_another_shape_differ(project):
    test = SUBJECT.format(subject="Net()").replace("== fx_golden", "== fx_golden(example_inputs=torch.zeros({n}, 4))")
    project.test(test.format(n=2))
    project.update()
    project.test(test.format(n=5))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*batch 2 -> 5 everywhere", "*- input x  # float32?2, 4?", "*+ input x  # float32?5, 4?"]
    )


@pytest.mark.parametrize("inputs", ["[torch.zeros(2, 4)]", "3"])
def test_inputs_in_another_form_are_refused(project, inputs):
    project.test(SUBJECT.format(subject="Net()").replace("== fx_golden", f"== fx_golden(example_inputs={inputs})"))

    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*example_inputs: expected a tuple of positional arguments or a lone tensor, got*"])


def test_a_graph_of_the_users_keeps_its_own_meta(project):
    project.test(
        """
import torch
import fxcore
from model import Net


def test_net(fx_golden):
    graph = fxcore.symbolic_trace(Net())
    before = [dict(node.meta) for node in graph.graph.nodes]
    assert graph == fx_golden(example_inputs=torch.zeros(2, 4))
    assert [dict(node.meta) for node in graph.graph.nodes] == before
"""
    )

    project.update().assert_outcomes(passed=1)


ANNOTATED = """
import fxcore
from model import Net

def test_net(fx_golden):
    gm = fxcore.symbolic_trace(Net())
    for node in gm.graph.nodes:
        node.meta["partition_tag"] = {tag}
    assert gm == fx_golden(meta=("partition_tag",))
"""


def test_metadata_that_is_asked_for_is_part_of_the_golden(project):
    project.test(ANNOTATED.format(tag="node.op"))
    project.update().assert_outcomes(passed=1)
    assert b'# meta: partition_tag="placeholder"' in project.goldens()["test_net/test_net.yaml"]
    project.run().assert_outcomes(passed=1)

    project.test(ANNOTATED.format(tag="node.name"))
    result = project.run()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['E*nn.Linear meta*partition_tag*: "call_module" -> "linear", and 2 more edits'])


def test_metadata_that_cannot_be_written_fails_with_the_reason(project):
    project.test(ANNOTATED.format(tag="object()"))

    result = project.update()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*DocumentError: cannot write down metadata 'partition_tag' of node *"])
    assert project.goldens() == {}
