"""Is a test expected to fail? Asked before a mismatch is let pass for the sake of an update."""

from __future__ import annotations

import pytest


def is_expected_to_fail(item: pytest.Item) -> bool:
    """Tell whether an xfail marker holds for the test.

    Such a test is no place to update goldens from, and letting its mismatch pass would turn it into an unexpected pass.
    pytest keeps what it found out about the markers to itself, hence the import of a private function; where it is
    missing, a marker counts whatever its condition.
    """
    try:
        from _pytest.skipping import evaluate_xfail_marks
    except ImportError:
        return item.get_closest_marker("xfail") is not None
    return evaluate_xfail_marks(item) is not None
