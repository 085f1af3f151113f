"""The first pass manager of torch.fx: functions of any object, run once in an order that constraints allow.

`passes.infra.pass_manager` has the manager for graph modules.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from fxcore.errors import GraphArgumentError, PassError
from fxcore.passes.infra import pass_manager as infra
from fxcore.passes.infra.pass_manager import Constraint, Pass, this_before_that_pass_constraint

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Make a pass of a function that changes its first argument: the pass returns that argument."""

    @functools.wraps(fn)
    def run(subject: Any, *args: Any, **kwargs: Any) -> Any:
        fn(subject, *args, **kwargs)
        return subject

    return run


def log_hook(fn: Callable[..., Any], level: int = logging.INFO) -> Callable[..., Any]:
    """Return a function that calls `fn` and logs its result."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        returned = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, returned)
        return returned

    return run


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None) -> Pass:
    """Make a pass that runs `base_pass` `n_iter` times, or as long as `predicate` of its result is true.

    Raises GraphArgumentError (an AssertionError) unless just one of the two is given; the pass raises PassError
    (a RuntimeError) if `n_iter` is not positive.
    """
    if (n_iter is None) == (predicate is None):
        raise GraphArgumentError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def run(subject: Any) -> Any:
        if predicate is not None:
            while predicate(subject):
                subject = base_pass(subject)
            return subject
        if n_iter is None or n_iter < 1:
            raise PassError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate (given None)")
        for _ in range(n_iter):
            subject = base_pass(subject)
        return subject

    return run


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """Make a constraint that forbids `those` before `these`, also if `loop_pass` or `log_hook` wraps a pass."""

    def may_run_in_order(first: Pass, second: Pass) -> bool:
        return inspect.unwrap(first) is not those or inspect.unwrap(second) is not these

    return may_run_in_order


class PassManager(infra.PassManager):
    """Runs passes one after the other, each on the result of the pass before."""

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None) -> None:
        """Take passes, and constraints: functions that tell of two passes whether they may run in that order."""
        super().__init__(passes, constraints)

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """Return a manager of `passes` without constraints."""
        return PassManager(passes)

    def remove_pass(self, _passes: list[str] | None) -> None:
        """Remove the passes with the given names."""
        if _passes is not None:
            self.passes = [each for each in self.passes if each.__name__ not in _passes]

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Put a pass in the place of each pass that has the name of `_target`."""
        name = _target.__name__
        self.passes = [_replacement if each.__name__ == name else each for each in self.passes]

    def validate(self) -> None:
        """Raise PassError (a RuntimeError) if the passes stand in an order that a constraint forbids."""
        self.validate_constraints()

    def __call__(self, source: Any) -> Any:
        """Run the passes on `source`, and return the result of the last pass."""
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
