"""The stages of a lowering on a page: a column a stage, with nodes that are followed from column to column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_fxgraph.draw.markup import quoted
from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage

_SIGNS = {"added": "+", "removed": "\N{MINUS SIGN}", "rewritten": "~", "kept": "", "traced": ""}
_CLASSES = {"added": "added", "removed": "removed", "rewritten": "changed"}
_FEWEST_KEPT = 4  # one after the other, that are folded
_MOST_NODES = 2_000  # of a column

Numbered = tuple[int, StripNode]


def strip_panel(strip: StageStrip) -> str:
    """Return the stages side by side; a node names the places of those it was made from, by which a page follows it."""
    columns = []
    before: StripStage | None = None
    for number, stage in enumerate(strip.stages):
        columns.append(_column(number, stage, before))
        before = stage
    return (
        '<p class="soft">A column a stage. Choose a node to follow it: what it was made from, and what became of it.'
        f'</p><p class="followed" role="status"></p><ol class="strip">{"".join(columns)}</ol>'
    )


def _column(number: int, stage: StripStage, before: StripStage | None) -> str:
    counts = Counter(node.change for node in stage.nodes)
    counts["removed"] = len(stage.removed)
    told = [
        f'<span class="mark {_CLASSES[change]}">{_SIGNS[change]}{counts[change]} {change}</span>'
        for change in ("added", "removed", "rewritten")
        if counts[change]
    ]
    if before is not None and counts["kept"]:
        told.append(f'<span class="soft">{counts["kept"]} kept</span>')
    shown = [*enumerate(stage.nodes)][:_MOST_NODES]
    parts = [*_nodes_html(number, shown)]
    if len(stage.nodes) > _MOST_NODES:
        parts.append(f'<li class="soft">and {len(stage.nodes) - _MOST_NODES} more nodes</li>')
    if before is not None and stage.removed:
        parts += [_removed_html(number, before, place) for place in stage.removed[:_MOST_NODES]]
    count = len(stage.nodes)
    return (
        f'<li class="stage-column"><h3>{quoted(stage.name)}</h3><p><b>{count} node{"" if count == 1 else "s"}</b> '
        f"{' '.join(told)}</p><ol>{''.join(parts)}</ol></li>"
    )


def _nodes_html(number: int, nodes: Sequence[Numbered]) -> Iterator[str]:
    for is_kept, group in groupby(nodes, key=lambda each: each[1].change == "kept"):
        members = [*group]
        inner = [_node_html(number, place, node) for place, node in members]
        if is_kept and len(members) >= _FEWEST_KEPT:
            yield f"<li><details><summary>{len(members)} kept</summary><ol>{''.join(inner)}</ol></details></li>"
        else:
            yield from inner


def _node_html(number: int, place: int, node: StripNode) -> str:
    made_from = " ".join(f"{number - 1}.{each}" for each in node.made_from)
    where = ", ".join(filter(None, (f"in {node.module}" if node.module else "", node.source)))
    sign = f'<span aria-hidden="true">{_SIGNS[node.change]}</span>&nbsp;' if _SIGNS[node.change] else ""
    return (
        f'<li><button type="button" class="strip-node {_CLASSES.get(node.change, "")}" data-node="{number}.{place}" '
        f'data-from="{made_from}" title="{quoted(where)}">{sign}<b>{quoted(node.operator)}</b> '
        f'<span class="soft">{quoted(node.name)}</span><span class="spoken">, {node.change}</span></button></li>'
    )


def _removed_html(number: int, before: StripStage, place: int) -> str:
    node = before.nodes[place]
    return (
        f'<li><button type="button" class="strip-node removed" data-node="{number}.gone.{place}" '
        f'data-from="{number - 1}.{place}"><span aria-hidden="true">{_SIGNS["removed"]}</span>&nbsp;'
        f"<b>{quoted(node.operator)}</b> "
        f'<span class="soft">{quoted(node.name)}</span><span class="spoken">, removed</span></button></li>'
    )
