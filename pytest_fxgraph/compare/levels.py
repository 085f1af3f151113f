"""The levels at which two documents are compared."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pytest_fxgraph.budget import Allowances
from pytest_fxgraph.choices import LEVELS, Level
from pytest_fxgraph.compare.breaks import break_difference
from pytest_fxgraph.compare.commutativity import with_operands_in_order
from pytest_fxgraph.compare.cost import cost_difference
from pytest_fxgraph.compare.difference import Difference
from pytest_fxgraph.compare.exact import exact_difference
from pytest_fxgraph.compare.expected_terms import close_contents, in_expected_terms
from pytest_fxgraph.compare.normalization import normalized_spelling
from pytest_fxgraph.compare.ops import ops_difference
from pytest_fxgraph.compare.recorded_facts import with_facts_of_both
from pytest_fxgraph.compare.signature import signature_difference
from pytest_fxgraph.compare.structure import structure_difference
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import LevelError

_COMPARISONS: dict[Level, Callable[[GraphDocument, GraphDocument], Difference]] = {
    "exact": exact_difference,
    "structure": structure_difference,
    "ops": ops_difference,
    "signature": signature_difference,
    "cost": cost_difference,
    "breaks": break_difference,
}


def compare_documents(
    expected: GraphDocument,
    obtained: GraphDocument,
    *,
    level: str = "structure",
    commutative: bool = False,
    normalize: bool = False,
    constants: str = "exact",
    budget: Allowances | None = None,
) -> Difference:
    """Compare an obtained document with an expected one at a level.

    `commutative` leaves the order of operands free where the operator does, `normalize` the spelling of operators;
    both loosen `structure` and `ops`, and have no say at `exact` and `signature`. With `constants` "close" or "shape",
    floats that differ by rounding are equal: in constant tensors, and but for `exact` in arguments and configurations.
    Names that nobody chose count at `exact` alone. `budget` is for level `cost`; without one, costs have to be equal.
    Raises LevelError if there is no such level.
    """
    compare = comparison_at(level)
    is_close = constants != "exact"
    if level == "cost":
        return cost_difference(expected, obtained, budget)
    with _garbage_collection_paused():
        expected, obtained = with_facts_of_both(expected, obtained)
        if level == "exact":
            state = close_contents(obtained.state, expected.state) if is_close else obtained.state
            return compare(expected, replace(obtained, state=state))
        if normalize and level in ("structure", "ops"):
            expected, obtained = normalized_spelling(expected), normalized_spelling(obtained)
        is_commutative = commutative and level in ("structure", "ops")
        prepare = with_operands_in_order if is_commutative else None
        obtained = in_expected_terms(expected, obtained, is_close=is_close, prepare=prepare)
        if is_commutative:
            expected, obtained = with_operands_in_order(expected, obtained)
        return compare(expected, obtained)


def comparison_at(level: str) -> Callable[[GraphDocument, GraphDocument], Difference]:
    """Return the comparison of a level. Raises LevelError, which lists the levels, if there is no such level."""
    if level not in LEVELS:
        raise LevelError(
            f"cannot compare at level {level!r}: there is no such level in this release; use one of {', '.join(LEVELS)}"
        )
    return _COMPARISONS[level]


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Keep the collector from walking over tens of thousands of fresh tuples, none of which is garbage yet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
