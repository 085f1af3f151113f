"""The fixtures `fx_equivalence` and `fx_transform`, as far as the plugin wires them."""

from __future__ import annotations

import pytest

NUDGED = """
import pytest
import torch
import fxcore
from model import Net


def nudge(graph_module):
    graph = graph_module.graph
    output = graph.output_node()
    with graph.inserting_before(output):
        output.args = (graph.call_function(torch.mul, (output.args[0], 1.001)),)
    graph_module.recompile()
    return graph_module


{marker}
def test_equivalence(fx_equivalence, fx_trace):
    torch.manual_seed(0)
    model = Net()
    graph = fx_equivalence(model, torch.rand(2, 4) + 1, graph=nudge(fx_trace(model)){call})
    assert isinstance(graph, fxcore.GraphModule)


{marker}
def test_transform(fx_transform):
    torch.manual_seed(0)
    result = fx_transform(nudge, Net(), torch.rand(2, 4) + 1{call})
    assert not result.difference.is_empty
"""


@pytest.mark.parametrize(
    ("ini", "marker", "call"),
    [
        ("fx_rtol = 0.1\nfx_atol = 0.1", "", ""),
        ("", "@pytest.mark.fx(rtol=0.1, atol=0.1)", ""),
        ("fx_rtol = 0\nfx_atol = 0", "", ", rtol=0.1, atol=0.1"),
    ],
    ids=["ini", "marker", "argument"],
)
def test_tolerances_reach_the_comparison(project, ini, marker, call):
    project.model("torch.sigmoid(y)")
    project.pytester.makeini(f"[pytest]\n{ini}\n")
    project.test(NUDGED.format(marker=marker, call=call))

    project.run().assert_outcomes(passed=2)


def test_without_a_tolerance_the_nudge_is_found(project):
    project.model("torch.sigmoid(y)")
    project.test(NUDGED.format(marker="", call=""))

    result = project.run()

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E*MismatchError: eager and graph*output has other values*"])


ZEROS = """
import pytest
import torch


{marker}
def test_equivalence(fx_equivalence):
    fx_equivalence(lambda x: x * 0, torch.ones(3){call})


{marker}
def test_transform(fx_transform):
    fx_transform(lambda graph_module: None, lambda x: x * 0, torch.ones(3){call})
"""


@pytest.mark.parametrize(
    ("ini", "marker", "call"),
    [
        ("fx_allow_vacuous = true", "", ""),
        ("", "@pytest.mark.fx(allow_vacuous=True)", ""),
        ("fx_allow_vacuous = false", "", ", allow_vacuous=True"),
    ],
    ids=["ini", "marker", "argument"],
)
def test_a_check_that_no_wrong_graph_could_fail_passes_where_that_is_allowed(project, ini, marker, call):
    project.pytester.makeini(f"[pytest]\n{ini}\n")
    project.test(ZEROS.format(marker=marker, call=call))

    project.run().assert_outcomes(passed=2)


def test_an_argument_refuses_again_what_a_marker_allows(project):
    project.test(ZEROS.format(marker="@pytest.mark.fx(allow_vacuous=True)", call=", allow_vacuous=False"))

    result = project.run()

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E*VacuousCheckError: comparing eager and*says nothing*"])


def test_a_numeric_mismatch_is_told_in_full_in_a_section_of_the_report(project):
    project.model("torch.sigmoid(y)")
    project.test(NUDGED.format(marker="", call=""))

    result = project.run("-k", "test_equivalence")

    result.assert_outcomes(failed=1, deselected=1)
    result.stdout.fnmatch_lines(["*- fx equivalence -*", "*max abs error*"])


def test_fx_ops_answers_for_any_subject(project):
    project.model("torch.relu(y)")
    project.test(
        """
        import pytest
        import torch
        from model import Net

        def test_ops(fx_ops):
            ops = fx_ops(Net())
            assert ops.count(torch.relu) == 1
            assert ops.count(torch.nn.Linear) == 1
            ops.absent("aten.*", torch.sigmoid)
            ops.in_order(torch.nn.Linear, torch.relu)
            with pytest.raises(AssertionError, match="torch.relu must be absent, and 1 node of the graph calls"):
                ops.absent(torch.relu)
        """.replace("\n        ", "\n")
    )

    project.run().assert_outcomes(passed=1)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("ini", "marker", "call"),
    [
        ("fx_sqnr = 50", "", ""),
        ("fx_cosine = 0.999", "", ""),
        ("fx_checks = dtype,strides", "", ""),
        ("fx_checks =\n    aliasing\n    second call", "", ""),
        ("fx_fp64_reference = false\nfx_rtol = out*=0.1", "", ""),
        ("", "@pytest.mark.fx(sqnr=50, cosine=0.99)", ""),
        ("", '@pytest.mark.fx(checks="dtype")', ""),
        ("", '@pytest.mark.fx(rtol={"output": 0.1})', ""),
        ("fx_sqnr = 90\nfx_checks = values", "", ", sqnr=50"),
        ("fx_checks = values", "", ', checks=("strides",)'),
    ],
)
def test_profiles_reach_the_comparison_from_every_place(project, ini, marker, call):
    project.model("torch.sigmoid(y)")
    project.pytester.makeini(f"[pytest]\n{ini}\n")
    project.test(NUDGED.format(marker=marker, call=call))

    project.run().assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("ini", "words"),
    [
        ("fx_sqnr = 90", "E*SQNR is 60.0 dB, at least 90 dB was asked for (6 elements, float32)"),
        (
            "fx_rtol = output[1]=0.1",
            "E*ChoiceError: there is a tolerance for 'output[[]1]', and nothing is compared at*",
        ),
        ("fx_fp64_reference = true", "E*output has other values *(off from float64 by*"),
    ],
)
def test_a_profile_that_is_missed_says_by_how_much(project, ini, words):
    project.model("torch.sigmoid(y)")
    project.pytester.makeini(f"[pytest]\n{ini}\n")
    project.test(NUDGED.format(marker="", call=""))

    result = project.run()

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([words])


def test_a_wrong_check_is_a_usage_error_before_anything_runs(project):
    project.test("@__import__('pytest').mark.fx(checks='value')\ndef test_net():\n    pass\n")

    result = project.run()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*marker fx of *test_net, checks: there is no check 'value' (did you mean 'values'[?])*"]
    )
