"""A comparison that the subject's class answered is explained, and no other comparison."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch

from pytest_fxgraph.gate.fixture import FxGolden, foreign_comparison_message


@pytest.fixture
def golden():
    return FxGolden.__new__(FxGolden)


@pytest.mark.parametrize("op", ["==", "is", "in"])
def test_a_subject_that_answers_itself_is_told_with_the_way_around(golden, op):
    subject = torch.ones(2)

    assert foreign_comparison_message(op, subject, golden) == [
        f"Tensor {op} fx_golden",
        "Tensor answered the comparison itself, so fx_golden was never asked;",
        "write `assert fx_golden == subject` or `fx_golden.check(subject)`",
    ]
    assert foreign_comparison_message(op, golden, subject) == foreign_comparison_message(op, subject, golden)


def test_a_not_before_a_comparison_that_matched_is_told(golden):
    golden._comparison, golden._options = Mock(compare=Mock(return_value=None)), {}
    subject = torch.ones(2)

    assert golden == subject
    assert foreign_comparison_message("==", subject, golden) == [
        "Tensor == fx_golden",
        "the comparison held, and a mismatch fails the test by itself;",
        "remove the `not`",
    ]
    assert "never asked" in foreign_comparison_message("is", subject, golden)[1]
    assert "never asked" in foreign_comparison_message("==", torch.zeros(2), golden)[1]


def test_other_comparisons_are_not_explained(golden):
    assert foreign_comparison_message("==", 1, 2) is None
    assert foreign_comparison_message("!=", golden, 2) is None
