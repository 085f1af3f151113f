"""Mutants of kernels and of Inductor's passes fail with the right words, and harmless edits pass.

The cases were written by somebody who had not read the capture of kernels nor their comparison. torch's own scheduler
decides which edit changes kernels.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.kernel_cases import KernelCase
from fixtures.kernel_harmless_edits import HARMLESS
from fixtures.kernel_mutants import MUTANTS
from fixtures.kernel_truth import truth
from pytest_fxgraph import Capture, assert_graph_matches_golden, capture


def captured(case: KernelCase, side: str) -> Capture:
    model, inputs = case.subject(side)
    with case.configured(side):
        return capture(model, inputs, frontend="inductor", mode=case.mode)  # type: ignore[arg-type]


def truth_of(case: KernelCase, side: str):
    return truth(*case.subject(side), case.mode, case.settings_of(side))


def recorded(case: KernelCase, folder: Path) -> Path:
    """Record the kernels of the original, and ask the original the question of the case."""
    original = captured(case, "original")
    golden = folder / "golden.yaml"
    assert_graph_matches_golden(original, golden, level="kernels", update=True)
    if case.question is not None:
        case.question(original)
    return golden


def check_mutant(case: KernelCase, folder: Path) -> None:
    golden = recorded(case, folder)
    changed = captured(case, "changed")
    with pytest.raises(AssertionError) as raised:
        assert_graph_matches_golden(changed, golden, level="kernels")
    missing = [word for word in case.words if word not in str(raised.value)]
    assert not missing, f"{missing} not in:\n{raised.value}"
    if case.question is not None:
        with pytest.raises(AssertionError):
            case.question(changed)


# One of each kind that is fast.
IN_SAMPLE = {
    *("topk_between", "contiguous_before_matmul", "attention_smoothed", "a_cache_no_longer_written"),
    *("joint_pass_erases_the_scale", "user_pass_misses", "other_names", "another_file", "independent_statements"),
}
MUTANT_SAMPLE = [case for case in MUTANTS if str(case) in IN_SAMPLE]
HARMLESS_SAMPLE = [case for case in HARMLESS if str(case) in IN_SAMPLE]


@pytest.mark.slow
@pytest.mark.parametrize("case", MUTANT_SAMPLE, ids=str)
def test_a_mutant_fails_with_the_right_words(case, tmp_path):
    check_mutant(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", HARMLESS_SAMPLE, ids=str)
def test_a_harmless_edit_passes(case, tmp_path):
    assert_graph_matches_golden(captured(case, "changed"), recorded(case, tmp_path), level="kernels")


@pytest.mark.slow
def test_the_stages_count_matches_as_the_capture_does(fx_stages):
    (case,) = (case for case in MUTANTS if str(case) == "user_pass_fires_twice")
    with case.configured("changed"):
        stages = fx_stages(*case.subject("changed"), ["inductor"])

    assert stages.fired("kernel_mutants", times=2) == 2
    with pytest.raises(AssertionError, match="fired 2 times, expected 1 time"):
        stages.fired("kernel_mutants", times=1)
    assert "post_grad_custom_post_pass" in "\n".join(stages.history("sigmoid_default"))


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in MUTANTS if case not in MUTANT_SAMPLE], ids=str)
def test_every_other_mutant_fails_with_the_right_words(case, tmp_path):
    check_mutant(case, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in HARMLESS if case not in HARMLESS_SAMPLE], ids=str)
def test_every_other_harmless_edit_passes(case, tmp_path):
    assert_graph_matches_golden(captured(case, "changed"), recorded(case, tmp_path), level="kernels")


@pytest.mark.long
@pytest.mark.parametrize("case", MUTANTS, ids=str)
def test_a_mutant_changes_what_the_scheduler_of_torch_makes(case):
    assert truth_of(case, "original") != truth_of(case, "changed")


@pytest.mark.long
@pytest.mark.parametrize("case", HARMLESS, ids=str)
def test_a_harmless_edit_changes_nothing_for_the_scheduler_of_torch(case):
    assert truth_of(case, "original") == truth_of(case, "changed")


@pytest.mark.slow
def test_there_are_enough_of_them():
    assert len(MUTANTS) >= 60
    assert len(HARMLESS) >= 30
    assert len(MUTANT_SAMPLE) + len(HARMLESS_SAMPLE) == len(IN_SAMPLE)
    assert len({str(case) for case in (*MUTANTS, *HARMLESS)}) == len(MUTANTS) + len(HARMLESS)
