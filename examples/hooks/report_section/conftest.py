"""Ends a run with one line for the log of the night."""

from __future__ import annotations

from collections import Counter


def pytest_fxgraph_report_section(outcomes):
    """Count what became of the goldens."""
    counts = Counter(outcome.status for outcome in outcomes)
    return "nightly graphs: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
