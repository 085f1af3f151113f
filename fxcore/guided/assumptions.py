"""Assumptions: branches on the contents of tensors where a graph follows the example."""

from __future__ import annotations

from typing import TypeVar

from fxcore.guided.proxies import ExampleProxy

_T = TypeVar("_T")


def assume(condition: _T) -> _T | bool:
    """Return `condition`. A trace with an example returns its truth in the example, and makes it a guard of the graph.

    Write it around a condition on the contents of tensors, `if fxcore.assume(x.min() >= 0): ...`, if the graph need not
    hold for inputs that decide otherwise. A call of the graph refuses these inputs.
    """
    if isinstance(condition, ExampleProxy):
        return bool(condition.tracer.answers.assumed(condition))
    return condition
