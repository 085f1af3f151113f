"""What graphs cost on a page: a line a module, the largest first, and what changed between two graphs."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_fxgraph.compare.cost import relative
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.draw.markup import quoted

_METRICS = (("flops", "FLOPs"), ("bytes", "bytes"), ("params", "parameters"), ("nodes", "nodes"))
_MOST_ROWS = 300
_NOTHING = CostRecord()


def cost_panel(expected: CostBlock | None, obtained: CostBlock | None) -> str:
    """Return a table of one graph's costs, or of those of two with what changed."""
    block = obtained or expected
    if block is None:
        return ""
    other = expected if obtained is not None else None
    head = "".join(f'<th scope="col">{name}</th>' for _, name in _METRICS)
    modules = dict(block.modules)
    before = dict(other.modules) if other is not None else {}
    paths = sorted(
        dict.fromkeys([*modules, *before]),
        key=lambda path: (
            -abs(modules.get(path, _NOTHING).flops - before.get(path, _NOTHING).flops) if other is not None else 0,
            -modules.get(path, _NOTHING).flops,
            -modules.get(path, _NOTHING).bytes,
        ),
    )
    rows = [_row("the whole graph", block.total, other.total if other is not None else None, block.total.flops)]
    for path in paths[:_MOST_ROWS]:
        pair = modules.get(path, _NOTHING), before.get(path, _NOTHING) if other is not None else None
        rows.append(_row(path or "(root)", *pair, block.total.flops))
    if len(paths) > _MOST_ROWS:
        rows.append(f'<tr class="gap"><td colspan="6">{len(paths) - _MOST_ROWS} more modules</td></tr>')
    return (
        f"{''.join(_notes(block, other))}"
        f'<table class="costs"><caption>Costs by module</caption><thead><tr><th scope="col">module</th>{head}'
        f'<th scope="col">share of FLOPs</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _notes(block: CostBlock, other: CostBlock | None) -> Iterator[str]:
    peak = _number(block.peak_activation, None if other is None else other.peak_activation)
    yield f"<p>Peak activation memory: {peak} bytes, in {quoted(block.peak_at or 'the outermost module')}.</p>"
    if block.uncounted:
        yield f"<p>Operators without a count of FLOPs: {quoted(', '.join(block.uncounted))}.</p>"


def _row(name: str, record: CostRecord, before: CostRecord | None, total: int) -> str:
    cells = []
    for metric, _ in _METRICS:
        number = getattr(record, metric)
        cells.append(f"<td>{_number(number, None if before is None else getattr(before, metric))}</td>")
    share = 100 * record.flops / total if total else 0.0
    is_changed = before is not None and before != record
    bar = f'<td class="bar"><i class="within" style="width:{share * 0.7:.1f}%"></i> {share:.1f}%</td>'
    return (
        f'<tr class="{"changed" if is_changed else ""}"><th scope="row">{quoted(name)}</th>{"".join(cells)}{bar}</tr>'
    )


def _number(number: int, before: int | None) -> str:
    if before is None or before == number:
        return f"{number:,}"
    kind = "plus" if number > before else "minus"
    return f'{number:,} <span class="delta {kind}">{quoted(relative(before, number))}</span>'
