"""Gives kernels names that outlive the file they are in."""

from __future__ import annotations


def pytest_fxgraph_target_name(target):
    """Name a kernel without its file."""
    module = getattr(target, "__module__", None) or ""
    return f"kernels.{target.__name__}" if module.startswith("kernels_of_") else None
