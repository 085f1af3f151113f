from __future__ import annotations

from dataclasses import asdict

from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError
from pytest_fxgraph.report.plain_data import record_of


def test_a_failure_is_the_same_after_it_was_sent():
    failure = NumericFailure(
        "test_net.py::test_net",
        "they differ",
        "by much",
        (
            TensorError("output", "differs", ("2 of 3",), ErrorHistogram(-3, (1, 0), (0, 2), 4, 1)),
            TensorError("x", "y"),
        ),
        (PathStep("first", "relu", "relu_1", "block", "model.py:3", "1", "2", 0.5), PathStep("left out", "3 more")),
    )

    assert record_of(NumericFailure, asdict(failure)) == failure
