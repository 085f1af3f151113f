"""Search for an input at which eager and graph part, and make it small."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

import torch

from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import CheckContext
from pytest_fxgraph.equivalence.search.budget import SearchBudget, SearchReport, Stopwatch
from pytest_fxgraph.equivalence.search.judging import Judge, Verdict
from pytest_fxgraph.equivalence.search.recipe import Recipe, context_of
from pytest_fxgraph.equivalence.search.shrinking import Shrinker
from pytest_fxgraph.equivalence.search.space import SpaceFinder
from pytest_fxgraph.errors import MismatchError

# Parts of a search: the time for asking eager what it takes, the tries for corners, the checks for making it smaller.
_TIME_FOR_SPACE = 0.25
_SHARE_OF_CORNERS = 4
_FEWEST_CORNERS = 16
_SHRINKS = 150
_TRIES_AROUND_A_CORNER = 60
_ROUNDS = 5
_LEAST_OF_A_ROUND = 10

# Of a message, as in pytest_fxgraph.equivalence.mismatch.
_LINES = 6
_WIDTH = 200
_SHOWN_ELEMENTS = 12


def search_further(
    check: EquivalenceCheck, model: Any, graph_call: GraphCall, mode: str | None, guard: Snapshot
) -> None:
    """Search for an input at which model and graph part, if the check asks for that; what it did is noted there.

    Raises MismatchError, whose message holds the smallest input that was found.
    """
    __tracebackhide__ = True
    if check.search is not None:
        judge = Judge(check, model, graph_call, mode, guard, _device_of(check.arguments))
        Search(judge, check.search).run()


class Search:
    """One search: the corners first, then what hypothesis draws."""

    def __init__(self, judge: Judge, budget: SearchBudget) -> None:
        """Take who tells whether an input shows a fault, and what may be spent."""
        self._judge, self._budget = judge, budget
        self._tries = 0
        self._found_at: int | None = None
        self._shrinks = 0
        self._known: dict[Recipe, bool] = {}
        self._passed_over: Counter[Verdict] = Counter()
        self._last_error: MismatchError | None = None

    def run(self) -> None:
        """Search; raises MismatchError if the graph is wrong for an input."""
        __tracebackhide__ = True
        # Imported here, for it needs hypothesis.
        from pytest_fxgraph.equivalence.search.strategy import minimal, simpler_recipes

        judge, budget = self._judge, self._budget
        seconds = budget.share()
        self._time = Stopwatch(seconds)
        finder = SpaceFinder(judge.check.arguments, judge.graph_call.graph, judge.accepts, seconds * _TIME_FOR_SPACE)
        space = self._space = finder.find()
        judge.example_layouts = space.example().layouts
        found = self._first()
        if found is None:
            budget.add(self._report())
            return
        simpler = minimal(simpler_recipes(space, found), self._is_wrong, judge.check.seed, _TRIES_AROUND_A_CORNER)
        self._raise(found if simpler is None else simpler)

    def _first(self) -> Recipe | None:
        """Return a recipe for which the graph is wrong."""
        from pytest_fxgraph.equivalence.search.strategy import corners, minimal, recipes

        tries, seed = self._budget.tries, self._judge.check.seed
        most = max(tries // _SHARE_OF_CORNERS, min(tries, _FEWEST_CORNERS))
        for recipe in corners(self._space, seed)[:most]:
            if self._is_wrong(recipe):
                return recipe
        # hypothesis draws some recipes twice; those count once.
        for round_ in range(_ROUNDS):
            if self._tries < tries and not self._time.is_up:
                # The first example of a round is always the simplest, so that a round of one would be in vain.
                left = max(tries - self._tries, _LEAST_OF_A_ROUND)
                found = minimal(recipes(self._space), self._is_wrong, seed + round_ * 2**32, left, self._is_over)
                if found is not None:
                    return found
        return None

    def _is_over(self) -> bool:
        return self._found_at is None and self._time.is_up

    def _is_wrong(self, recipe: Recipe) -> bool:
        """Tell whether a recipe shows a fault: always the same, and no where tries or time are used up."""
        if recipe not in self._known:
            if self._found_at is None:
                if self._tries >= self._budget.tries or self._time.is_up:
                    return False
                self._tries += 1
            self._known[recipe] = self._shows_fault(self._space.make(recipe), recipe)
            if self._known[recipe] and self._found_at is None:
                self._found_at = self._tries
        return self._known[recipe]

    def _shows_fault(self, arguments: Arguments, recipe: Recipe) -> bool:
        if self._found_at is not None:
            self._shrinks += 1
            if self._shrinks > _SHRINKS or self._time.is_up:
                return False
        verdict = self._judge.judge(arguments, recipe)
        if isinstance(verdict, MismatchError):
            self._last_error = verdict
            return True
        if self._found_at is None:
            self._passed_over[verdict] += 1
        return False

    def _report(self) -> SearchReport:
        check = self._judge.check
        passed_over = [(each.value, count) for each, count in self._passed_over.items() if each is not Verdict.AGREES]
        return SearchReport(
            subject=f"{check.subject}{CheckContext(mode=self._judge.mode)}",
            wanted=self._budget.tries,
            tried=self._tries,
            is_cut=self._time.is_up,
            seconds=self._time.elapsed,
            passed_over=tuple(sorted(passed_over)),
            kept_sizes=not self._space.sizes,
        )

    def _raise(self, recipe: Recipe) -> NoReturn:
        """Make the input smaller, compare once more with all explanations, and raise what differs."""
        __tracebackhide__ = True
        first = self._space.make(recipe)
        # Half of the checks are left for this.
        self._shrinks = min(self._shrinks, _SHRINKS // 2)
        smallest = Shrinker(self._space, first, lambda arguments: self._shows_fault(arguments, recipe)).run()
        judge, error = self._judge, self._last_error
        with context_of(recipe, judge.device):
            try:
                judge.check_of(smallest, recipe).run(judge.model, judge.graph_call, judge.mode, judge.guard)
            except MismatchError as found:
                error = found
        assert error is not None
        raise self._told(error, smallest, recipe) from error.__cause__

    def _told(self, error: MismatchError, arguments: Arguments, recipe: Recipe) -> MismatchError:
        """Add how the input was found, and what it is."""
        where = [{"no_grad": "under no_grad", "autocast": "under autocast to bfloat16"}.get(recipe.context, "")]
        where += ["called twice"] if recipe.second_call else []
        at = "".join(f", {each}" for each in where if each)
        found = (
            f"found by search, try {self._found_at} of {self._budget.tries}, seed {self._judge.check.seed}{at}; "
            f"smallest input: "
        )
        described = describe(arguments)
        line = f"  {found}{described}"
        head, *rest = str(error).splitlines()
        shown = line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
        section = f"{error.section}\n{found}{described}"
        return MismatchError("\n".join([head, shown, *rest][:_LINES]), section, error.mismatches, error.path)


def describe(arguments: Arguments) -> str:
    """Describe arguments in a line: dtypes, shapes, values where there are few."""
    described = []
    for name, value in arguments.named():
        text = _describe_tensor(value) if isinstance(value, torch.Tensor) else _shortened(value)
        described.append(f"{name.removeprefix('input ')} = {text}")
    return ", ".join(described) or "no arguments"


def _describe_tensor(tensor: torch.Tensor) -> str:
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized or not tensor.numel():
        return text
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= _SHOWN_ELEMENTS:
        text += f" {_numbers(tensor.tolist())}"
    elif int((left := flat.nonzero().reshape(-1)).numel()) <= 2:
        places = [f"{_numbers(flat[int(each)].item())} at {_index(int(each), tensor.shape)}" for each in left]
        text += f" all 0{' but ' if places else ''}{', '.join(places)}"
    elif bool((flat == flat[0]).all()):
        text += f" all {_numbers(flat[0].item())}"
    return text if tensor.is_contiguous() else f"{text} with strides {tensor.stride()}"


def _index(flat: int, shape: torch.Size) -> list[int]:
    return [int(place) for place in torch.unravel_index(torch.tensor(flat), shape)]


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shortened(value: Any) -> str:
    parts = [f"{path}{_describe_tensor(tensor)}" for path, tensor in Arguments((value,), {}).tensors()]
    text = ", ".join(parts).replace("input 0", "") if parts else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _device_of(arguments: Arguments) -> str:
    tensors = arguments.tensors()
    return tensors[0][1].device.type if tensors else "cpu"
