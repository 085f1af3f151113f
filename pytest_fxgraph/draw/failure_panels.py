"""A numeric failure on a page: how large the errors are, and the way on which they came to be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_fxgraph.draw.markup import quoted
from pytest_fxgraph.report.numeric_failure import ErrorHistogram, NumericFailure, PathStep, TensorError

# What a step is said to be, its class, and the sign by which it is told without its colour.
_STEPS = {
    "agrees": ("agrees", "", "="),
    "first": ("differs first here", "removed", "\N{NOT EQUAL TO}"),
    "differs": ("differs", "changed", "\N{NOT EQUAL TO}"),
    "only eager": ("ran in eager alone", "removed", "\N{MINUS SIGN}"),
    "only graph": ("ran in the graph alone", "added", "+"),
}
_SAID = ("first", "only eager", "only graph")  # in words, besides the sign
_SMALLEST = 1e-16


def errors_panel(tensors: Sequence[TensorError]) -> str:
    """Return what differs, the first explaining the others, each with its errors by size."""
    return "".join(_tensor_html(tensor) for tensor in tensors)


def _tensor_html(tensor: TensorError) -> str:
    lines = "".join(f"<p>{quoted(line)}</p>" for line in tensor.lines)
    histogram = histogram_html(tensor.histogram) if tensor.histogram is not None else ""
    said = "" if tensor.lines and tensor.lines[0] in tensor.description else f"<p>{quoted(tensor.description)}</p>"
    return f'<section class="tensor"><h3>{quoted(tensor.where)}</h3>{said}{lines}{histogram}</section>'


def histogram_html(histogram: ErrorHistogram) -> str:
    """Return a table with a bar for each power of ten: which errors the tolerance allows, and which it does not."""
    bins = [*zip(histogram.within, histogram.beyond, strict=True)]
    counts = [histogram.exact, *map(sum, bins), histogram.not_finite]
    most = max(counts, default=0) or 1
    rows = [_row("no error", histogram.exact, 0, most)] if histogram.exact else []
    for place, (within, beyond) in enumerate(bins):
        power = histogram.first + place
        rows.append(_row(f"1e{power:+03d} to 1e{power + 1:+03d}", within, beyond, most))
    if histogram.not_finite:
        rows.append(_row("NaN or infinite in one alone", 0, histogram.not_finite, most))
    return (
        '<table class="histogram"><caption>Elements by absolute error</caption><thead><tr><th scope="col">error</th>'
        '<th scope="col">elements</th><th scope="col">'
        '<span class="key within"></span> within the tolerance <span class="key beyond"></span> beyond it</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _row(label: str, within: int, beyond: int, most: int) -> str:
    # Bars by the logarithm: one element among millions is to be seen.
    total = within + beyond
    width = 100 * math.log1p(total) / math.log1p(most) if total else 0.0
    parts = "".join(
        f'<i class="{kind}" style="width:{width * count / total:.2f}%"></i>'
        for kind, count in (("within", within), ("beyond", beyond))
        if count
    )
    words = f"{total:,}" + (f" ({beyond:,} beyond)" if beyond and within else "")
    return f'<tr><th scope="row">{quoted(label)}</th><td>{words}</td><td class="bar">{parts}</td></tr>'


def way_panel(path: Sequence[PathStep]) -> str:
    """Return the operators on the way of the error, with what both runs computed."""
    return (
        '<p class="soft">Operators in the order in which they ran: what leads to the first difference, and what it '
        'leads to.</p><table class="way"><caption>The way of the error</caption><thead><tr><th scope="col"></th>'
        '<th scope="col">operator</th><th scope="col">largest error</th><th scope="col">eager</th>'
        f'<th scope="col">graph</th></tr></thead><tbody>{"".join(_step_rows(path))}</tbody></table>'
    )


def _step_rows(path: Sequence[PathStep]) -> Iterator[str]:
    errors = [step.error for step in path if step.error]
    finite = [error for error in errors if math.isfinite(error)]
    largest, smallest = max(finite, default=1.0), max(min(finite, default=1.0), _SMALLEST)
    for step in path:
        if step.status == "left out":
            yield f'<tr class="gap"><td colspan="5">{quoted(step.operator)}</td></tr>'
            continue
        words, kind, sign = _STEPS.get(step.status, (step.status, "", ""))
        place = quoted(", ".join(filter(None, (f"in {step.module}" if step.module else "", step.source))))
        node = f' <span class="soft">{quoted(step.node)}</span>' if step.node else ""
        said = f' <span class="mark {kind}">{words}</span>' if step.status in _SAID else ""
        yield (
            f'<tr class="{kind} {"first" if step.status == "first" else ""}"><td class="sign"><span aria-hidden="true">'
            f'{sign}</span><span class="spoken">{words}</span></td>'
            f"<td><b>{quoted(step.operator)}</b>{node}{said}"
            f'<div class="soft place" title="{place}">{place}</div></td>'
            f"<td>{_error_html(step, smallest, largest)}</td>{_values_html(step)}</tr>"
        )


def _values_html(step: PathStep) -> str:
    if step.expected == step.obtained:
        return f'<td colspan="2">{quoted(step.expected)}</td>'
    return f"<td>{quoted(step.expected)}</td><td>{quoted(step.obtained)}</td>"


def _error_html(step: PathStep, smallest: float, largest: float) -> str:
    error = step.error
    if error is None:
        return "" if step.status.startswith("only") else '<span class="soft">not measured</span>'
    if not error:
        return "0"
    share = 1.0
    if math.isfinite(error) and largest > smallest:
        share = 0.08 + 0.92 * (math.log10(max(error, smallest)) - math.log10(smallest)) / math.log10(largest / smallest)
    return f'{error:.3g}<span class="bar"><i class="beyond" style="width:{100 * share:.1f}%"></i></span>'


def failure_panels(failure: NumericFailure) -> Iterator[tuple[str, str]]:
    """Yield the names and contents of a failure's panels."""
    if failure.path:
        yield "Way", way_panel(failure.path)
    if failure.tensors:
        yield "Errors", errors_panel(failure.tensors)
