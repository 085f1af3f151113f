"""Says when two sets of boxes are equal."""

from __future__ import annotations


def pytest_fxgraph_compare_outputs(expected, obtained, path):
    """Compare boxes in whatever order; leave everything else to the plugin."""
    if not path.endswith("['boxes']"):
        return None
    return "" if sorted(expected.tolist()) == sorted(obtained.tolist()) else "holds other boxes"
