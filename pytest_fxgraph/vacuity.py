"""The one definition of "this check could have failed". This file imports no torch.

A check has parts, and a part could have failed if an empty counterpart of its subject would be caught:

- values (`equivalence.vacuous_values`): a graph that returns zeros;
- operators (`operator_patterns`): a graph with one more call, in a dialect that the graph speaks;
- numbers of a table or a budget: any other number of a column or metric that is judged;
- a transform: the graph as it was before.

A check could have failed if one of its parts could. Any other check is refused with a VacuousCheckError.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from pytest_fxgraph.errors import VacuousCheckError


def vacuous_error(check: str, problem: str, remedy: str) -> VacuousCheckError:
    """Return the error of a check that `allow_vacuous=True` would let pass."""
    return VacuousCheckError(f"{check} says nothing: {problem}. {remedy}; allow_vacuous=True lets the check pass")


def refuse_nothing_asked(check: str, parts: Sequence[object], remedy: str = "name at least one operator") -> None:
    """Raise VacuousCheckError for a check without any part."""
    if not parts:
        raise VacuousCheckError(f"{check} was asked nothing, so that it could never fail; {remedy}")


@contextlib.contextmanager
def vacuous_examples_rejected() -> Iterator[None]:
    """Ask hypothesis for another example if it runs the user's test and its example could not have failed."""
    try:
        yield
    except VacuousCheckError:
        hypothesis = sys.modules.get("hypothesis")
        if hypothesis is not None and hypothesis.currently_in_test_context():
            hypothesis.reject()
        raise
