"""Assumptions: branches on the contents of tensors that a graph takes as the example does."""

from __future__ import annotations

from typing import TypeVar

from fxcore.guided.proxies import ExampleProxy

_T = TypeVar("_T")


def assume(condition: _T) -> _T | bool:
    """Return `condition`. A trace with an example returns its truth in the example, and makes it a guard of the graph.

    Write it around a condition that depends on the contents of tensors, `if fxcore.assume(x.min() >= 0): ...`, where
    the graph need not hold for inputs that decide otherwise. `GraphModule.check_guards` refuses these.
    """
    if isinstance(condition, ExampleProxy):
        return bool(condition.tracer.answers.assumed(condition))
    return condition
