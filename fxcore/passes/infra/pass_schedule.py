"""In which order passes run: constraints between two passes, checked and solved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fxcore.errors import PassError

Pass = Callable[..., Any]
# Of two passes, given in the order in which they would run: may they?
Constraint = Callable[[Pass, Pass], bool]


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Make a constraint that forbids `that` before `this`."""

    def may_run_in_order(first: Pass, second: Pass) -> bool:
        return first != that or second != this

    return may_run_in_order


def check_schedule(passes: Sequence[Pass], constraint: Constraint) -> None:
    """Raise PassError (a RuntimeError) for the first two of `passes` that `constraint` forbids in their order."""
    for index, first in enumerate(passes):
        for offset, second in enumerate(passes[index + 1 :]):
            if not constraint(first, second):
                raise PassError(
                    f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index "
                    f"{index} and {second} at index {offset} in pass list. Reorder the passes, or let "
                    "PassManager.solve_constraints() do so"
                )


def solve_schedule(passes: list[Pass], constraints: Sequence[Constraint]) -> list[Pass]:
    """Return `passes` in an order that `constraints` allow; in the given order where there are none.

    Raises PassError (a RuntimeError) if no order is allowed.
    """
    if not constraints:
        return passes
    # By index, so that a pass may be there twice.
    followers: list[list[int]] = [[] for _ in passes]
    unmet = [0] * len(passes)
    for index, each in enumerate(passes):
        for other_index, other in enumerate(passes):
            if each != other:
                for constraint in constraints:
                    if not constraint(each, other):
                        followers[other_index].append(index)
                        unmet[index] += 1
    ready = deque(index for index in range(len(passes)) if unmet[index] == 0)
    solved: list[Pass] = []
    while ready:
        index = ready.popleft()
        solved.append(passes[index])
        for follower in followers[index]:
            unmet[follower] -= 1
            if unmet[follower] == 0:
                ready.append(follower)
    if len(solved) < len(passes):
        circle = [each for each, count in zip(passes, unmet, strict=True) if count]
        raise PassError(
            f"Circular dependency detected within the following passes: {circle}. Each must run before another of "
            "them; remove a constraint"
        )
    return solved
