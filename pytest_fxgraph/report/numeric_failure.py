"""A numeric failure as plain data: how large the errors are, and on which way through the graph they came to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ErrorHistogram:
    """How many elements of a tensor have an error of which power of ten."""

    first: int  # errors of the first bin are at least 10**first, if it is not the smallest that is told apart
    within: tuple[int, ...]  # of each bin, a power of ten wide, the elements that the tolerance allows
    beyond: tuple[int, ...]  # and those that it does not
    exact: int  # elements without an error
    not_finite: int = 0  # elements that are NaN or infinite in one run alone


@dataclass(frozen=True)
class TensorError:
    """One thing that differs between eager and graph."""

    where: str
    description: str
    lines: tuple[str, ...] = ()  # of what was measured
    histogram: ErrorHistogram | None = None


@dataclass(frozen=True)
class PathStep:
    """An operator on the way of the values, in the order of execution, with what it returned in both runs."""

    status: str  # "agrees", "differs", "first" (to differ), "only eager", "only graph", or "left out"
    operator: str
    node: str = ""
    module: str = ""
    source: str = ""
    expected: str = ""  # what eager computed, described
    obtained: str = ""
    error: float | None = None  # the largest absolute one; None where none can be measured


@dataclass(frozen=True)
class NumericFailure:
    """Eager and graph gave different results in one test."""

    nodeid: str
    headline: str
    section: str  # everything in words
    tensors: tuple[TensorError, ...] = ()
    path: tuple[PathStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the failure as values that pytest-xdist can send."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NumericFailure:
        """Read what `to_dict` returned."""
        return cls(
            data["nodeid"],
            data["headline"],
            data["section"],
            tuple(_tensor_error(each) for each in data["tensors"]),
            tuple(PathStep(**each) for each in data["path"]),
        )


def _tensor_error(data: Mapping[str, Any]) -> TensorError:
    found = data["histogram"]
    histogram = None
    if found is not None:
        histogram = ErrorHistogram(**{**found, "within": tuple(found["within"]), "beyond": tuple(found["beyond"])})
    return TensorError(data["where"], data["description"], tuple(data["lines"]), histogram)
