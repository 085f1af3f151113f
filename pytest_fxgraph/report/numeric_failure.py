"""A failed check without a golden as plain data: the size of numeric errors, and their way through the graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorHistogram:
    """The number of a tensor's elements per power of ten of their error."""

    first: int  # errors of the first bin are at least 10**first; the smallest bin also holds smaller errors
    within: tuple[int, ...]  # per bin, a power of ten wide: elements within the tolerance
    beyond: tuple[int, ...]  # per bin: elements beyond the tolerance
    exact: int  # elements without an error
    not_finite: int = 0  # elements that are NaN or infinite in one run alone


@dataclass(frozen=True)
class TensorError:
    """One difference between eager and graph."""

    where: str
    description: str
    lines: tuple[str, ...] = ()  # measured facts
    histogram: ErrorHistogram | None = None


@dataclass(frozen=True)
class PathStep:
    """An operator on the way of the values, in execution order, with its results in both runs."""

    status: str  # "agrees", "differs", "first" (to differ), "only eager", "only graph", or "left out"
    operator: str
    node: str = ""
    module: str = ""
    source: str = ""
    expected: str = ""  # the eager result, described
    obtained: str = ""
    error: float | None = None  # the largest absolute error; None where it cannot be measured


@dataclass(frozen=True)
class NumericFailure:
    """A failed check of one test without a golden: eager and graph differ, or a model was not captured whole."""

    nodeid: str
    headline: str
    section: str  # the whole failure as text
    tensors: tuple[TensorError, ...] = ()
    path: tuple[PathStep, ...] = ()
    check: str = "equivalence"  # or "capture"
    source: str = ""  # the user's line; the path has the lines of "equivalence"
    places: tuple[tuple[str, str], ...] = ()  # of "capture": each line of the user's with the words for it

    @property
    def subject(self) -> str:
        """Name the two things that differ, as tables and titles do."""
        return "eager and graph" if self.check == "equivalence" else "graph breaks"
