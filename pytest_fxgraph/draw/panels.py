"""The panels of a page: costs, numeric errors and the stages of a lowering. `panels.html` holds their markup."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_fxgraph.compare.cost import relative
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.draw.templates import panel
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError
from pytest_fxgraph.report.stage_strip import StageStrip

_MOST_ROWS = 300
_NOTHING = CostRecord()
_SMALLEST = 1e-16
_FEWEST_KEPT = 4  # kept nodes in a row, from which on they are folded
_MOST_NODES = 2_000  # of a column


def cost_panel(expected: CostBlock | None, obtained: CostBlock | None) -> str:
    """Return the costs of one graph by module, or the costs of the obtained graph with the changes."""
    block = obtained or expected
    if block is None:
        return ""
    other = expected if obtained is not None else None
    modules = dict(block.modules)
    before = dict(other.modules) if other is not None else {}

    def by_change_and_size(path: str) -> tuple[int, int, int]:
        record = modules.get(path, _NOTHING)
        change = abs(record.flops - before.get(path, _NOTHING).flops)
        return -change, -record.flops, -record.bytes

    paths = sorted(dict.fromkeys([*modules, *before]), key=by_change_and_size)
    rows = [("the whole graph", block.total, other and other.total)]
    rows += [
        (path or "(root)", modules.get(path, _NOTHING), before.get(path, _NOTHING) if other is not None else None)
        for path in paths[:_MOST_ROWS]
    ]
    return panel("costs", block, other, rows, len(paths[_MOST_ROWS:]), relative)


def failure_panels(failure: NumericFailure) -> Iterator[tuple[str, str]]:
    """Yield the names and contents of a failure's panels."""
    if failure.path:
        yield "Way", way_panel(failure.path)
    if failure.tensors:
        yield "Errors", errors_panel(failure.tensors)


def errors_panel(tensors: Sequence[TensorError]) -> str:
    """Return the tensors that differ, each with a histogram of its errors. The first explains the others."""
    return panel("errors", [(each, [*_bins(each.histogram)] if each.histogram else ()) for each in tensors])


def _bins(histogram: ErrorHistogram) -> Iterator[tuple[str, int, int, float]]:
    """Yield for each power of ten: label, errors within the tolerance, errors beyond it, width of the bar in %."""
    bins = [("no error", histogram.exact, 0)] if histogram.exact else []
    pairs = zip(histogram.within, histogram.beyond, strict=True)
    for power, (within, beyond) in enumerate(pairs, histogram.first):
        bins.append((f"1e{power:+03d} to 1e{power + 1:+03d}", within, beyond))
    if histogram.not_finite:
        bins.append(("NaN or infinite in one alone", 0, histogram.not_finite))
    most = max([1, *(within + beyond for _, within, beyond in bins)])
    for label, within, beyond in bins:
        # The logarithm makes one element among millions visible.
        yield label, within, beyond, 100 * math.log1p(within + beyond) / math.log1p(most)


def way_panel(path: Sequence[PathStep]) -> str:
    """Return the operators on the way of the error, with the values of both runs."""
    finite = [step.error for step in path if step.error and math.isfinite(step.error)]
    largest, smallest = max(finite, default=1.0), max(min(finite, default=1.0), _SMALLEST)
    return panel("way", [(step, step.error and _share(step.error, smallest, largest)) for step in path])


def _share(error: float, smallest: float, largest: float) -> float:
    """Return the width of an error's bar in percent, by the logarithm; the smallest error has 8 %."""
    if not math.isfinite(error) or largest <= smallest:
        return 100.0
    return 8 + 92 * (math.log10(max(error, smallest)) - math.log10(smallest)) / math.log10(largest / smallest)


def strip_panel(strip: StageStrip) -> str:
    """Return the stages of a lowering side by side. A page follows a node by the places in `made_from`."""
    columns = []
    for stage, before in zip(strip.stages, (None, *strip.stages[:-1]), strict=True):
        counts = Counter(node.change for node in stage.nodes)
        counts["removed"] = len(stage.removed)
        shown = [*enumerate(stage.nodes)][:_MOST_NODES]
        groups = [[*members] for _, members in groupby(shown, key=lambda each: each[1].change == "kept")]
        folded = [group[0][1].change == "kept" and len(group) >= _FEWEST_KEPT for group in groups]
        removed = [(place, before.nodes[place]) for place in stage.removed[:_MOST_NODES]] if before is not None else []
        left_out = len(stage.nodes[_MOST_NODES:])
        columns.append((stage, before, counts, [*zip(groups, folded, strict=True)], removed, left_out))
    return panel("strip", columns)
