"""The options of the checks that compare eager with a graph: one record for fixtures, functions, marker and ini."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, cast

from fxcore.state.tensor_values import BufferPool
from pytest_fxgraph.arguments import Mode, NumberByPath
from pytest_fxgraph.choices import CHECKS, Check, Frontend, SearchValues, checks_named
from pytest_fxgraph.equivalence.check import EquivalenceCheck
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.outputs import OutputComparison, ValueComparison
from pytest_fxgraph.equivalence.repro import ReproductionFolder
from pytest_fxgraph.equivalence.search.search import SearchBudget
from pytest_fxgraph.equivalence.tolerance import ToleranceRule, nearest
from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.ranks.world import MeshSizes
from pytest_fxgraph.settings import NUMERIC

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pytest_fxgraph.captures.subjects import Adapter


class CheckOptions(TypedDict, total=False):
    """Options of every check; None, or a missing option, follows marker and ini, then DEFAULTS."""

    rtol: NumberByPath | None  # None follows the dtype
    atol: NumberByPath | None  # None follows the dtype and the magnitude
    grads: bool
    modes: Mode | Sequence[Mode]
    samples: int
    seed: int | None
    fp64_reference: bool | None
    sqnr: float | None
    cosine: float | None
    checks: Check | Iterable[Check] | None  # None for all
    strict_inputs: bool | None
    search: int | None  # tries of each search, 0 for no search
    search_seconds: float | None
    search_values: SearchValues | None
    allow_vacuous: bool | None


class EquivalenceOptions(CheckOptions, total=False):
    """Options of `fx_equivalence` and `assert_equivalent`."""

    frontend: Frontend | None


class RankOptions(EquivalenceOptions, total=False):
    """Options of `fx_equivalence` for a parallel program."""

    build: Callable[..., Any] | None
    mesh: MeshSizes | None
    batch: bool | str | Sequence[str]
    optimizer: Callable[..., Any] | None
    timeout: float


class ParallelOptions(RankOptions, total=False):
    """Options of `assert_equivalent`, with those of `fx_equivalence` for a parallel program."""

    ranks: Any  # a number, or the result of fx_ranks


# Options without a marker of their own. Signatures show their defaults, and None for all others.
CALL_DEFAULTS: dict[str, object] = {"grads": False, "modes": ("eval",), "samples": 1}
DEFAULTS: dict[str, object] = {**{setting.name: setting.default for setting in NUMERIC}, **CALL_DEFAULTS}


class CheckDefaults:
    """The options of every check of one test, unless a call gives others; base of the fixtures that compare."""

    defaults: ClassVar[Mapping[str, object]] = DEFAULTS

    def __init__(
        self,
        *,
        compare_outputs: ValueComparison | None = None,
        adapt: Adapter | None = None,
        reproduction: ReproductionFolder | None = None,
        buffer_pool: BufferPool | None = None,
        tell_search: Callable[[str], None] | None = None,
        tells_path: bool = False,
        **options: Unpack[EquivalenceOptions],
    ) -> None:
        """Set the test's options and the services of the session.

        `tell_search` gets the report of each search. With `tells_path`, a mismatch holds the way of the error through
        the graph, for reports.
        """
        self._test = cast(CheckOptions, {**self.defaults, **options})
        self._compare_outputs = compare_outputs
        self._adapt = adapt
        self._reproduction = reproduction
        self._buffer_pool = buffer_pool or BufferPool()
        self._tell_search = tell_search
        self._tells_path = tells_path

    def chosen(self, options: Mapping[str, object]) -> dict[str, Any]:
        """Return all options of a call; raise TypeError for the name of an option that does not exist."""
        unknown = next((name for name in options if name not in self.defaults), None)
        if unknown is not None:
            raise TypeError(f"{type(self).__name__}.__call__() got an unexpected keyword argument {unknown!r}")
        return {**self._test, **{name: value for name, value in options.items() if value is not None}}

    def new_check(self, arguments: Arguments, options: CheckOptions) -> EquivalenceCheck:
        """Make the check of one call; raise ChoiceError or ValueError for a wrong option."""
        chosen = cast(CheckOptions, self.chosen(options))
        grads = chosen["grads"]
        checks = _checks_of(chosen["checks"], grads=grads)
        return EquivalenceCheck(
            arguments,
            OutputComparison(_rule_of(options, self._test), grads, self._compare_outputs, checks),
            samples=chosen["samples"],
            seed=chosen["seed"] or 0,
            grads=grads,
            fp64_reference=bool(chosen["fp64_reference"]),
            strict_inputs=bool(chosen["strict_inputs"]),
            allow_vacuous=bool(chosen["allow_vacuous"]),
            reproduction=self._reproduction,
            tells_path=self._tells_path,
        )

    def search_budget(self, options: CheckOptions, searches: int) -> SearchBudget | None:
        """Return the budget of the searches of one call; None without a search.

        Raises ValueError for a wrong number, and GateError if hypothesis is not installed.
        """
        chosen = cast(CheckOptions, self.chosen(options))
        tries = chosen["search"]
        if tries is None or (tries == 0 and tries is not False):
            return None
        seconds, values = chosen["search_seconds"] or 0, chosen["search_values"] or "all"
        budget = SearchBudget(tries, seconds, searches, self._tell_search, values)
        importlib.import_module("pytest_fxgraph.equivalence.search.drawing")  # refuses a missing hypothesis at once
        return budget


def _rule_of(call: CheckOptions, test: CheckOptions) -> ToleranceRule:
    """Return the tolerances of a call, or the test's tolerances if the call gives no tolerance and no threshold.

    Thresholds of the call replace the test's tolerances, and tolerances of the call replace the test's thresholds.
    """
    rtol, atol, sqnr, cosine = call.get("rtol"), call.get("atol"), call.get("sqnr"), call.get("cosine")
    if sqnr is not None or cosine is not None:
        sqnr = test["sqnr"] if sqnr is None else sqnr
        return ToleranceRule(rtol, atol, sqnr, test["cosine"] if cosine is None else cosine)
    if rtol is not None or atol is not None:
        return ToleranceRule(nearest(rtol, test["rtol"]), nearest(atol, test["atol"]))
    return ToleranceRule(test["rtol"], test["atol"], test["sqnr"], test["cosine"])


def _checks_of(names: Check | Iterable[Check] | None, *, grads: bool) -> frozenset[Check]:
    """Return the checks of some names; with `grads`, gradients are always among them.

    Raises ChoiceError for a wrong name, for no name, and for checks that compare nothing.
    """
    chosen = frozenset(CHECKS) if names is None else checks_named(names)
    if not grads and chosen <= {"gradients", "requires_grad"}:
        raise ChoiceError(f"checks={tuple(sorted(chosen))!r} compares nothing without grads=True")
    return chosen | {"gradients"} if grads else chosen
