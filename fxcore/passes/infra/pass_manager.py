"""Execution of passes in an order, again until nothing changes."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from fxcore.errors import PassArgumentError, PassError
from fxcore.graph_module import GraphModule
from fxcore.passes.dependency_order import in_dependency_order
from fxcore.passes.infra.pass_base import PassResult

Pass = Callable[..., Any]
# Returns whether two passes may run in the order in which they are given.
Constraint = Callable[[Pass, Pass], bool]


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Make a constraint that forbids `that` before `this`."""

    def may_run_in_order(first: Pass, second: Pass) -> bool:
        return first != that or second != this

    return may_run_in_order


def check_schedule(passes: Sequence[Pass], constraint: Constraint) -> None:
    """Raise PassError (a RuntimeError) for the first two of `passes` in an order that `constraint` forbids."""
    for index, first in enumerate(passes):
        for offset, second in enumerate(passes[index + 1 :]):
            if not constraint(first, second):
                raise PassError(
                    f"pass schedule constraint violated. Expected {first} before {second} but found {first} at index "
                    f"{index} and {second} at index {offset} in pass list. Reorder the passes, or let "
                    "PassManager.solve_constraints() do so"
                )


def solve_schedule(passes: list[Pass], constraints: Sequence[Constraint]) -> list[Pass]:
    """Return `passes` in an order that `constraints` allow; in the given order without constraints.

    Raises PassError (a RuntimeError) if no order is allowed.
    """
    if not constraints:
        return passes
    # By index, because a pass may be there twice.
    followers: list[list[int]] = [[] for _ in passes]
    unmet = dict.fromkeys(range(len(passes)), 0)
    for (index, each), (other_index, other) in itertools.permutations(enumerate(passes), 2):
        for constraint in constraints if each != other else ():
            if not constraint(each, other):
                followers[other_index].append(index)
                unmet[index] += 1
    solved = [passes[index] for index in in_dependency_order(unmet, followers.__getitem__)]
    if len(solved) < len(passes):
        circle = [passes[index] for index, count in unmet.items() if count]
        raise PassError(
            f"Circular dependency detected within the following passes: {circle}. Each must run before another of "
            "them; remove a constraint"
        )
    return solved


__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., PassResult | None]:
    """Make a pass of a function that changes a module in place, or returns a changed one.

    Its results always report a change. A PassResult goes through as it is.
    """
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped_fn(gm: nn.Module) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        return PassResult(result, True) if isinstance(result, nn.Module) else None

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


_topological_sort_passes = solve_schedule  # torch.fx's name for it


class PassManager:
    """Runs passes on a module, in an order that keeps the constraints.

    A pass takes a module and returns a PassResult: an instance of a PassBase, or a function.
    """

    _validated: bool = False
    steps: int = 1

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        """Take passes and constraints.

        `steps` is the largest number of rounds over all passes; a round that changes nothing is the last. A check given
        to `add_checks` runs at the beginning and, with `run_checks_after_each_pass`, after each pass.
        """
        self.passes = passes or []
        self.constraints = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass after the others."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a function of two passes that says whether the first may run before the second."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise PassError (a RuntimeError) if the passes stand in an order that a constraint forbids."""
        for constraint in self.constraints:
            check_schedule(self.passes, constraint)
        self._validated = True

    def solve_constraints(self) -> None:
        """Bring the passes into an order that the constraints allow. Raises PassError if no order is allowed."""
        self.passes = solve_schedule(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Let `check`, a function of a module, check the graph. Raises PassArgumentError (a TypeError) for others."""
        if len(inspect.signature(check).parameters) != 1:
            raise PassArgumentError(
                "PassManager check function should only take in one variable, a module; "
                f"{check} takes {inspect.signature(check)}"
            )
        vars(self)["check"] = check  # hides the method of this name

    def check(self, module: nn.Module) -> None:
        """Raise if `module` is not in order. By default, every module is."""

    def __call__(self, module: nn.Module) -> PassResult:
        """Run the passes, at most `steps` times, and return the module and whether anything changed.

        Raises PassError with the failed pass and the passes before it.
        """
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        was_modified = False
        for _ in range(self.steps):
            modified = False
            for index in range(len(self.passes)):
                result = self._run(index, module)
                module = result.graph_module
                modified = modified or result.modified
            was_modified = was_modified or modified
            if not modified:
                break
        return PassResult(module, was_modified)

    def _run(self, index: int, module: nn.Module) -> Any:
        each = self.passes[index]
        try:
            result = each(module)
            if not hasattr(result, "graph_module"):
                raise PassArgumentError(
                    f"The result of the pass {_name(each)} should be type PassResult, not {type(result).__name__}. "
                    "Please wrap it with pass_result_wrapper()"
                )
            if isinstance(result.graph_module, GraphModule):
                result.graph_module.recompile()
            if self.run_checks_after_each_pass:
                self.check(result.graph_module)
        except Exception as error:
            before = [_name(earlier) for earlier in self.passes[:index]]
            raise PassError(
                f"An error occurred when running the '{_name(each)}' pass after the following passes: {before}\n"
                f"{type(error).__name__}: {error}"
            ) from error
        return result


def _name(each: Pass) -> str:
    return each.__name__ if inspect.isfunction(each) else type(each).__name__
