"""The verdict on one input of a search: a fault of the graph, or rounding, overflow and refusals.

Refusals of the model's own code are `raise` and `assert` statements, and `torch._assert` and `torch._check`.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import io
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import nn

from fxcore.errors import GuardError
from fxcore.state.snapshot import Snapshot, globals_kept
from pytest_fxgraph.captures.tracing_failure import is_users_file
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.fp64_reference import widened_arguments
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, mismatch_error
from pytest_fxgraph.equivalence.run import InterpreterCall, RunFailure, RunSettings, run_model
from pytest_fxgraph.equivalence.search.recipe import Recipe, SearchSpace, context_of
from pytest_fxgraph.equivalence.state_changes import StateNames
from pytest_fxgraph.equivalence.tolerance import (
    AFTER_SECOND_CALL,
    SECOND_CALL,
    Tolerance,
    ToleranceRule,
    largest_magnitude,
)
from pytest_fxgraph.errors import EagerError, MismatchError, VacuousCheckError


class Verdict(Enum):
    """The answer of one try without a find."""

    AGREES = "agrees"
    ROUNDED = "differs by rounding or overflow alone"
    REFUSED = "eager refuses the input"
    GUARDED = "the graph's own guards refuse the input"
    SAYS_NOTHING = "zeros would agree, too"


# The kinds of mismatch that a run in double precision can explain.
_OF_VALUES = frozenset({"value", "mutation", "state", "gradient"})
# Right operators may lay out the same values in different ways, so strides count for the user's own layouts alone.
_OF_LAYOUT = frozenset({"stride"})
# Gradients are compared at these values alone: at a kink, two right graphs may choose different gradients.
_SMOOTH_FILLS = frozenset({"range", "normal"})
# Results of double-precision runs are compared with single-precision tolerances: a real fault is as large in double
# precision. The tolerances cover constants that a pass computed in single precision: folded weights are an example.
_RTOL_IN_DOUBLE = 1.3e-6
_ATOL_OF_LARGEST = 1e-6
_NUDGE = 2.0**-46
# The words of guards in exported graphs. Other guards are assertions.
_OF_GUARDS = re.compile(r"Guard failed|Expected input|Runtime assertion failed|Tensor \w+ mismatch!")


@dataclass(frozen=True)
class _RuleInDouble(ToleranceRule):
    """Compares results of double precision; the caller's `atol` does not suit huge values."""

    def for_tensor(self, expected: torch.Tensor, dtype: torch.dtype | None = None) -> Tolerance:
        tolerance = super().for_tensor(expected, dtype)
        if tolerance.is_exact and not (expected.is_floating_point() or expected.is_complex()):
            return tolerance
        rtol = _RTOL_IN_DOUBLE if self.rtol is None else tolerance.rtol
        return Tolerance(rtol, max(tolerance.atol, _ATOL_OF_LARGEST * largest_magnitude([expected])))

    def grown(self, expected: torch.Tensor) -> Tolerance | None:
        return None  # no wider dtype could judge


@dataclass
class Judge:
    """Runs model and graph on an input and tells whether the graph is wrong."""

    check: EquivalenceCheck
    model: Any
    graph_call: GraphCall
    mode: str | None
    guard: Snapshot
    device: str = "cpu"
    lost_check: tuple[Arguments, Mismatch] | None = None  # an input that eager's own check refuses, and not the graph

    def accepts(self, arguments: Arguments) -> bool:
        """Return whether eager runs on an input and no guard of the graph refuses the input.

        The first input that eager's own check refuses, and the graph answers, becomes `lost_check`.
        """
        settings = self._settings_for(arguments)
        with globals_kept(settings=False), quiet():
            expected = run_model(self.model, self.model, settings)
            if isinstance(expected, RunFailure):
                if self.lost_check is None and (mismatch := self._lost_check(expected, settings)) is not None:
                    self.lost_check = arguments, mismatch
                return False
            obtained = run_model(self.graph_call.call, self.graph_call.graph, settings)
            return not (isinstance(obtained, RunFailure) and _is_of_guard(obtained.error))

    def _settings_for(self, arguments: Arguments) -> RunSettings:
        self.guard.include(self.model)
        self.guard.include(self.graph_call.graph)
        names = StateNames(self.guard.state_of(self.model))
        return RunSettings(arguments, names, self.guard, self.check.seed, grads=False)

    def _lost_check(self, refusal: RunFailure, settings: RunSettings) -> Mismatch | None:
        """Return the mismatch of a graph that answers where a check in the model's own code raised."""
        place = own_refusal(refusal.error, self.model)
        if place is None or has_checks_elsewhere(self.graph_call.graph):
            return None
        if isinstance(run_model(self.graph_call.call, self.graph_call.graph, settings), RunFailure):
            return None
        first, _, _ = str(refusal.error).partition("\n")
        reason = f"{type(refusal.error).__name__}: {first}"
        return Mismatch("error", "eager", f"refuses an input that the graph answers: {reason} ({place})")

    def check_of(self, space: SearchSpace, recipe: Recipe) -> EquivalenceCheck:
        """Return the check of one input."""
        grads = self.check.grads and all(fill in _SMOOTH_FILLS for fill in recipe.fills)
        return replace(
            self.check,
            arguments=space.make(recipe),
            comparison=replace(self.check.comparison, requires_grad=grads),
            samples=1,
            grads=grads,
            second_call=recipe.second_call,
        )

    def judge(self, space: SearchSpace, recipe: Recipe) -> Verdict | MismatchError:
        """Compare on one input; return the mismatch if the graph is wrong."""
        check = replace(self.check_of(space, recipe), reproduction=None, explains=False)
        with context_of(recipe, self.device), quiet():
            error = self._compare(check, self.model, self.graph_call, self.guard)
            if error is Verdict.REFUSED:
                return self._refused(check)
            if isinstance(error, Verdict):
                return error
            if error.mismatches[0].kind == "error" and _is_of_guard(error.__cause__):
                return Verdict.GUARDED
            where = error.mismatches[0].where
            is_of_second = where.startswith(SECOND_CALL) or where.endswith(AFTER_SECOND_CALL)
            if is_of_second and not recipe.second_call:
                return Verdict.AGREES  # a recipe cannot make the other values of the second call smaller
            ignored = frozenset() if recipe.layouts == space.example().layouts else _OF_LAYOUT
            kinds = _kinds_of(error) - ignored
            if not kinds:
                return Verdict.AGREES
            is_extreme = space.is_extreme(recipe)
            if kinds <= _OF_VALUES | _OF_LAYOUT and self._is_explained(check, ignored, is_extreme=is_extreme):
                return Verdict.ROUNDED
        return error

    def _refused(self, check: EquivalenceCheck) -> Verdict | MismatchError:
        settings = self._settings_for(check.arguments)
        with globals_kept(settings=False):
            expected = run_model(self.model, self.model, settings)
            mismatch = self._lost_check(expected, settings) if isinstance(expected, RunFailure) else None
        return Verdict.REFUSED if mismatch is None else self.error_of(mismatch)

    def error_of(self, mismatch: Mismatch) -> MismatchError:
        """Return the error of a mismatch beside the comparison."""
        return mismatch_error([mismatch], CheckContext(self.check.subject, self.mode))

    def _compare(
        self, check: EquivalenceCheck, model: Any, graph_call: GraphCall, guard: Snapshot | None
    ) -> Verdict | MismatchError:
        try:
            check.run(model, graph_call, self.mode, guard)
        except MismatchError as error:
            return error
        except EagerError:
            return Verdict.REFUSED
        except VacuousCheckError:
            return Verdict.SAYS_NOTHING
        return Verdict.AGREES

    def _is_explained(self, check: EquivalenceCheck, ignored: frozenset[str], *, is_extreme: bool) -> bool:
        """Return whether rounding or overflow explains a mismatch: model and graph agree in double precision.

        Mismatches of `ignored` kinds count in neither precision. A mismatch is a find where double precision does not
        run, unless the values are extreme.
        """
        rule = _RuleInDouble(check.comparison.rule.rtol, check.comparison.rule.atol)
        try:
            model, graph_call = self._in_double
            check = replace(
                check, arguments=widened_arguments(check.arguments), comparison=replace(check.comparison, rule=rule)
            )
            verdict = self._compare(check, model, graph_call, None)
            if isinstance(verdict, MismatchError) and (kinds := _kinds_of(verdict) - ignored):
                is_judged = kinds <= _OF_VALUES | _OF_LAYOUT
                return is_extreme and (not is_judged or self._is_chaotic(check, model))
        except Exception:  # a model or graph that cannot be copied may raise any error
            return is_extreme
        return verdict is not Verdict.REFUSED or is_extreme

    def _is_chaotic(self, check: EquivalenceCheck, model: Any) -> bool:
        """Return whether the model itself gives other values for nearly the same input, as the sine of 1e30 does."""

        def nearly_the_same(*args: Any, **kwargs: Any) -> Any:
            given = Arguments(args, kwargs)
            nudged = given.copied({id(each): _nudged(each) for _, each in given.tensors()})
            return model(*nudged.args, **nudged.kwargs)

        verdict = self._compare(check, model, GraphCall(model, nearly_the_same), None)
        return isinstance(verdict, MismatchError) and any(each.kind == "value" for each in verdict.mismatches)

    @cached_property
    def _in_double(self) -> tuple[Any, GraphCall]:
        """Copy model and graph, with shared parameters, in double precision."""
        model, graph, call = copy.deepcopy((self.model, self.graph_call.graph, self.graph_call.call))
        for each in (model, graph, call, call.graph_module if isinstance(call, InterpreterCall) else None):
            if isinstance(each, nn.Module):
                each.double()
        return model, GraphCall(graph, call)


def _kinds_of(error: MismatchError) -> set[str]:
    return {mismatch.kind for mismatch in error.mismatches}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop a model's warnings and messages about odd inputs, because hundreds of tries would repeat them."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _nudged(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with values that differ by some units in the last place of double precision."""
    if not tensor.dtype.is_floating_point:
        return tensor
    sides = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device).reshape(tensor.shape) % 2
    return tensor * (1 + _NUDGE * (2 * sides - 1))


def _is_of_guard(error: BaseException | None) -> bool:
    """Return whether an error comes from a check that the graph makes and eager does not make."""
    return isinstance(error, (AssertionError, GuardError)) or _OF_GUARDS.match(str(error)) is not None


# Refusals of the model's own code.

# Functions of torch that raise if the caller's condition is not true.
_CHECKS_OF_TORCH = ("_assert", "_check")


def own_refusal(error: BaseException, model: Any) -> str | None:
    """Return the place of the model's own check that raised an error, `net.py:12`; None for any other error.

    An operator that cannot compute with an input checks nothing on behalf of the model, and neither does a library
    between model and operator. The statement must stand in a package that defines a module of the model.
    """
    steps = list(_steps(error.__traceback__))
    is_check = len(steps) > 1 and _is_check_of_torch(steps[-1].tb_frame)
    while len(steps) > 1 and _is_check_of_torch(steps[-1].tb_frame):
        steps.pop()
    if not steps:
        return None
    last = steps[-1]
    code = last.tb_frame.f_code
    is_statement = is_check or dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    is_of_user = is_users_file(code.co_filename) and _package(last.tb_frame.f_globals) in _packages(model)
    return f"{os.path.basename(code.co_filename)}:{last.tb_lineno}" if is_statement and is_of_user else None


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the steps of a traceback, the innermost last."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_check_of_torch(frame: FrameType) -> bool:
    return _package(frame.f_globals) == "torch" and frame.f_code.co_name.startswith(_CHECKS_OF_TORCH)


def _package(names: Any) -> str:
    return str(names.get("__name__", "")).partition(".")[0]


def _packages(model: Any) -> set[str]:
    modules = model.modules() if isinstance(model, nn.Module) else ()
    named = [type(module).__module__ for module in modules] or [str(getattr(model, "__module__", ""))]
    return {name.partition(".")[0] for name in named} - {"torch"}


def has_checks_elsewhere(graph: Any) -> bool:
    """Return whether the conditions of a graph are not in the graph: Dynamo keeps them, or guards are not enforced."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    guards = getattr(getattr(graph, "graph", None), "guards", ())
    is_of_dynamo = any("example_value" in node.meta for node in nodes)
    return is_of_dynamo or (bool(guards) and not getattr(guards, "are_enforced", False))
