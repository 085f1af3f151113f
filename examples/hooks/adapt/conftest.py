"""Lets tests hand over a Pipeline where a fixture takes a model."""

from __future__ import annotations

from pipeline import Pipeline


def pytest_fxgraph_adapt(obj):
    """Turn a pipeline into the model in it."""
    return obj.model if isinstance(obj, Pipeline) else None
