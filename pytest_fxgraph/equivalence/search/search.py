"""Search for an input that makes eager and graph differ, and show the smallest one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import torch

from fxcore.state.snapshot import Snapshot
from pytest_fxgraph.choices import SEARCH_VALUES_NAMED, SearchValues
from pytest_fxgraph.equivalence.check import EquivalenceCheck, GraphCall
from pytest_fxgraph.equivalence.inputs import Arguments
from pytest_fxgraph.equivalence.mismatch import CheckContext, Mismatch, with_line
from pytest_fxgraph.equivalence.search.judging import Judge, Verdict
from pytest_fxgraph.equivalence.search.recipe import Recipe, SearchSpace, context_of
from pytest_fxgraph.equivalence.search.space import SpaceFinder
from pytest_fxgraph.errors import ChoiceError, EagerError, MismatchError
from pytest_fxgraph.settings import SEARCH_SECONDS


class SearchReport(NamedTuple):
    """The account of one search without a find."""

    subject: str  # "graph (mode eval)"
    wanted: int
    tried: int
    seconds: float
    passed_over: tuple[tuple[str, int], ...] = ()  # the reason why tries say nothing about the graph, and their number
    kept_sizes: bool = False  # eager takes no other sizes, or the graph was made for the sizes of the example
    is_cut: bool = False  # the time was up

    @property
    def left_out(self) -> int:
        """Return the number of tries without time; a search with fewer different inputs than tries left out nothing."""
        return self.wanted - self.tried if self.is_cut else 0

    def __str__(self) -> str:
        text = f"{self.subject}: {self.tried} of {self.wanted} tries in {self.seconds:.1f} s, and no difference"
        if self.passed_over:
            text += "; passed over: " + ", ".join(f"{count} where {why}" for why, count in self.passed_over)
        if self.kept_sizes:
            text += "; all sizes were kept, for nothing takes others"
        if self.left_out:
            text += f"; the time was up, and {self.left_out} tries were left out: raise search_seconds, or lower search"
        return text


@dataclass
class SearchBudget:
    """The tries of each search, and the seconds that all searches of one call share.

    Raises ChoiceError if `tries` is not a whole number of at least 1, if `seconds` is not above 0, and for `values`
    that do not exist.
    """

    tries: int
    seconds: float = SEARCH_SECONDS.default
    parts: int = 1  # the number of searches of the call: one for each mode and pass
    tell: Callable[[str], None] | None = None  # gets the report of each search without a find
    values: SearchValues = "all"
    reports: list[SearchReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            raise ChoiceError(f"search must be a whole number of at least 1, or None for no search, got {self.tries!r}")
        if self.values not in SEARCH_VALUES_NAMED:
            raise ChoiceError(f"there are no search_values {self.values!r}; choose all or finite")
        if not self.seconds > 0:
            raise ChoiceError(f"search_seconds must be a number above 0, got {self.seconds!r}")

    def share(self) -> float:
        """Return the seconds of the next search."""
        spent = sum(report.seconds for report in self.reports)
        return max(0.0, self.seconds - spent) / max(1, self.parts - len(self.reports))

    def add(self, report: SearchReport) -> None:
        """Keep the report of a search, and tell it."""
        self.reports.append(report)
        if self.tell is not None:
            self.tell(str(report))


_TIME_FOR_SPACE = 0.25  # share of the seconds for asking eager
_MOST_SHRINKS = 400  # comparisons after the first find
_SHOWN_ELEMENTS = 12
_CONTEXTS = {"no_grad": "under no_grad", "autocast": "under autocast to bfloat16"}


def search_further(
    budget: SearchBudget | None,
    check: EquivalenceCheck,
    model: Any,
    graph_call: GraphCall,
    mode: str | None,
    guard: Snapshot,
) -> None:
    """Search for an input that makes model and graph differ; without a budget do nothing.

    The budget gets a report if there is no find. Raises MismatchError with the smallest found input.
    """
    __tracebackhide__ = True
    if budget is not None:
        tensors = check.arguments.tensors()
        device = tensors[0][1].device.type if tensors else "cpu"
        _Search(Judge(check, model, graph_call, mode, guard, device), budget).run()


class _Search:
    """The state of one search."""

    def __init__(self, judge: Judge, budget: SearchBudget) -> None:
        self._judge, self._budget = judge, budget
        self._tries = self._shrinks = 0
        self._known: dict[Recipe, Verdict | MismatchError] = {}
        self._found: Recipe | None = None  # the first one
        self._start = time.monotonic()
        self._end = self._start + budget.share()

    def run(self) -> None:
        """Search; raise MismatchError if the graph is wrong for an input."""
        __tracebackhide__ = True
        judge = self._judge
        seconds = (self._end - self._start) * _TIME_FOR_SPACE
        is_finite = self._budget.values == "finite"
        finder = SpaceFinder(judge.check.arguments, judge.graph_call.graph, judge.accepts, seconds, is_finite=is_finite)
        space = finder.find()
        if judge.lost_check is not None:
            self._raise_lost_check(*judge.lost_check)
        # Imported here because the file needs hypothesis, an extra.
        from pytest_fxgraph.equivalence.search.drawing import smallest

        found = smallest(space, lambda recipe: self._is_wrong(recipe, space), judge.check.seed, self._budget.tries)
        if found is not None:
            self._raise(found, space)
        self._budget.add(self._report(space))

    def _is_over(self) -> bool:
        limit = self._tries >= self._budget.tries if self._found is None else self._shrinks >= _MOST_SHRINKS
        return limit or time.monotonic() >= self._end

    def _is_wrong(self, recipe: Recipe, space: SearchSpace) -> bool:
        """Return whether the graph is wrong for a recipe; raise SearchStopped if tries, shrinks or time are used up."""
        from pytest_fxgraph.equivalence.search.drawing import SearchStopped

        if recipe not in self._known:
            if self._is_over():
                raise SearchStopped
            if self._found is None:
                self._tries += 1
            else:
                self._shrinks += 1
            self._known[recipe] = self._judge.judge(space, recipe)
        is_wrong = isinstance(self._known[recipe], MismatchError)
        if is_wrong and self._found is None:
            self._found = recipe
        return is_wrong

    def _report(self, space: SearchSpace) -> SearchReport:
        judge, now = self._judge, time.monotonic()
        reasons = Counter(
            verdict.value
            for verdict in self._known.values()
            if isinstance(verdict, Verdict) and verdict is not Verdict.AGREES
        )
        return SearchReport(
            subject=f"{judge.check.subject}{CheckContext(mode=judge.mode)}",
            wanted=self._budget.tries,
            tried=self._tries,
            is_cut=now >= self._end,
            seconds=now - self._start,
            passed_over=tuple(sorted(reasons.items())),
            kept_sizes=not space.sizes,
        )

    def _raise(self, smallest: Recipe, space: SearchSpace) -> NoReturn:
        """Compare once more on the smallest input, with all explanations, and raise the mismatch."""
        __tracebackhide__ = True
        judge, error = self._judge, self._known[smallest]
        with context_of(smallest, judge.device):
            try:
                judge.check_of(space, smallest).run(judge.model, judge.graph_call, judge.mode, judge.guard)
            except MismatchError as explained:
                error = explained
            except EagerError:
                pass  # a check of the model's own code that the graph lost
        assert isinstance(error, MismatchError)
        facts = [f"try {self._tries} of {self._budget.tries}", f"seed {judge.check.seed}"]
        facts += [_CONTEXTS[smallest.context]] if smallest.context else []
        facts += ["called twice"] if smallest.second_call else []
        self._raise_at(error, f"found by search, {', '.join(facts)}; smallest input: {describe(space.make(smallest))}")

    def _raise_lost_check(self, arguments: Arguments, mismatch: Mismatch) -> NoReturn:
        __tracebackhide__ = True
        found = f"found by search, which asked eager for the inputs that it accepts; input: {describe(arguments)}"
        self._raise_at(self._judge.error_of(mismatch), found)

    @staticmethod
    def _raise_at(error: MismatchError, found: str) -> NoReturn:
        """Raise a mismatch with the account of its input."""
        __tracebackhide__ = True
        raise with_line(error, found, place=1) from error.__cause__


def describe(arguments: Arguments) -> str:
    """Describe arguments in a line: dtypes, shapes, and the values of small tensors."""
    described = []
    for name, value in arguments.named():
        text = _described_tensor(value) if isinstance(value, torch.Tensor) else _described_value(value)
        described.append(f"{name.removeprefix('input ')} = {text}")
    return ", ".join(described) or "no arguments"


def _described_tensor(tensor: torch.Tensor) -> str:
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_quantized or not tensor.numel():
        return text
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= _SHOWN_ELEMENTS:
        text += f" {_numbers(tensor.tolist())}"
    elif len(left := flat.nonzero().reshape(-1).tolist()) <= 2:
        places = [torch.unravel_index(torch.tensor(index), tensor.shape) for index in left]
        odd = [f"{_numbers(flat[index].item())} at {[int(each) for each in place]}"
               for index, place in zip(left, places, strict=True)]  # fmt: skip
        text += f" all 0{' but ' if odd else ''}{', '.join(odd)}"
    elif bool((flat == flat[0]).all()):
        text += f" all {_numbers(flat[0].item())}"
    return text if tensor.is_contiguous() else f"{text} with strides {tensor.stride()}"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _described_value(value: Any) -> str:
    parts = [f"{path}{_described_tensor(tensor)}" for path, tensor in Arguments((value,), {}).tensors()]
    text = ", ".join(parts).replace("input 0", "") if parts else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
