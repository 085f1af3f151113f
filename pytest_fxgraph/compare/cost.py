"""Level `cost`: the cost of the whole graph within a budget, and the modules and nodes that changed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pytest_fxgraph.budget import METRICS, Allowance, Allowances
from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.document.costs import CostBlock, CostRecord
from pytest_fxgraph.document.literals import without_references
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.errors import LevelError
from pytest_fxgraph.grouping import grouped, without

_EXACTLY = Allowance(0)
_OF_A_MODULE = ("flops", "bytes", "params", "nodes")
MOST_MODULES = 200
BETTER = "better"


def cost_difference(expected: GraphDocument, obtained: GraphDocument, budget: Allowances | None = None) -> Difference:
    """Compare the costs of two graphs; a metric outside the budget has to be equal.

    A graph below the budget is a difference, too, because its golden no longer states its cost. Raises LevelError if
    neither graph has costs.
    """
    if expected.cost is None and obtained.cost is None:
        raise LevelError(
            "cannot compare at level 'cost': no costs are recorded for either graph; "
            'a test with fx_golden(level="cost", example_inputs=...) records them'
        )
    if expected.cost is None or obtained.cost is None:
        is_new = expected.cost is None
        return Difference("cost", (Change("cost", "added" if is_new else "removed", "cost", "costs", "recorded"),))
    metrics = list(_metric_changes(expected.cost, obtained.cost, budget or {}))
    if not metrics:
        return Difference("cost")
    modules = list(_module_changes(expected, obtained))
    kept = modules[:MOST_MODULES]
    # Worse metrics come first.
    metrics.sort(key=lambda change: change.field == BETTER)
    omitted = len(modules) - len(kept)
    return Difference("cost", (*metrics, *kept), truncated=omitted > 0, omitted=omitted)


def _metric_changes(expected: CostBlock, obtained: CostBlock, budget: Allowances) -> Iterator[Change]:
    for name in METRICS:
        before, after = expected.metric(name), obtained.metric(name)
        allowance = budget.get(name, _EXACTLY)
        if allowance is not None and not allowance.allows(before, after):
            remark = f"{relative(before, after)}, the budget is {allowance}"
            if name == "peak_activation":
                remark += f"; {_holders(obtained)}"
            field = BETTER if after < before else ""
            yield Change("cost", "changed", "cost", name, field, f"{before:,}", f"{after:,}", remark=remark)
    if expected.uncounted != obtained.uncounted and budget.get("flops", _EXACTLY) is not None:
        texts = [", ".join(block.uncounted) or "none" for block in (expected, obtained)]
        yield Change("cost", "changed", "cost", "operators without a count of FLOPs", "", *texts)


def relative(before: int, after: int) -> str:
    """Describe the change of a number: "+1.25%"; from 0, the new number itself."""
    if not before:
        return f"{after - before:+,}"
    percent = (after - before) / before * 100
    return f"{percent:+.2f}%" if abs(percent) < 1000 else f"x{after / before:.3g}"


def _holders(block: CostBlock) -> str:
    if not block.held:
        return f"most is live in {block.peak_at or 'the outermost module'}"
    shown = [f"{name} {size:,}" for name, size in block.held[:3]]
    more = [f"{len(block.held) - 3} more"] if len(block.held) > 3 else []
    return f"held by {', '.join([*shown, *more])}"


def _module_changes(expected: GraphDocument, obtained: GraphDocument) -> Iterator[Change]:
    """Yield the changed modules, the largest change first, each with its added, removed and changed nodes."""
    before, after = (dict(side.cost.modules) if side.cost else {} for side in (expected, obtained))
    nothing = CostRecord()
    paths = dict.fromkeys([*after, *before])
    changed = [
        (path, before.get(path, nothing), after.get(path, nothing))
        for path in paths
        if before.get(path) != after.get(path)
    ]
    changed.sort(key=lambda each: (-abs(each[2].flops - each[1].flops), -abs(each[2].bytes - each[1].bytes)))
    costs = obtained.cost.by_node if obtained.cost else {}
    nodes, obtained_nodes = _nodes_by_module(expected), _nodes_by_module(obtained)
    classes, obtained_classes = ({record.path: record.kind for record in side.modules} for side in (expected, obtained))
    for path, one, other in changed:
        for name in _OF_A_MODULE:
            counts = getattr(one, name), getattr(other, name)
            if counts[0] != counts[1]:
                about = Change("cost", "changed", "module", path or "(root)", name, remark=relative(*counts))
                yield replace(about, expected=f"{counts[0]:,}", obtained=f"{counts[1]:,}")
        kinds = classes.get(path), obtained_classes.get(path)
        if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
            yield Change("cost", "changed", "module", path, "class", kinds[0], kinds[1])
        if expected.nodes:  # a golden of costs has none
            yield from _node_changes(path, nodes.get(path, []), obtained_nodes.get(path, []), costs)


def _nodes_by_module(document: GraphDocument) -> dict[str, list[NodeRecord]]:
    calls = [node for node in document.nodes if node.op.startswith("call_")]
    return grouped(calls, lambda node: node.target if node.op == "call_module" else node.scope or "")


def _node_changes(
    path: str, expected: list[NodeRecord], obtained: list[NodeRecord], costs: Mapping[str, CostRecord]
) -> Iterator[Change]:
    """Yield the calls of a module that only one graph has; two calls of one operator are one call with a new value."""
    new, gone = without(obtained, expected, _described), without(expected, obtained, _described)
    for node in new:
        partner = next((other for other in gone if (other.op, other.target) == (node.op, node.target)), None)
        scope = path or None
        if partner is None:
            text = _with_cost(_described(node)[0], costs.get(node.name))
            yield Change("cost", "added", "node", node.name, obtained=text, scope=scope, source=node.source)
            continue
        gone.remove(partner)
        before, after = (" ".join(_described(each)) for each in (partner, node))
        if partner.value != node.value and partner.value and node.value:
            before, after = partner.value, node.value
        after = _with_cost(after, costs.get(node.name))
        yield Change("cost", "changed", "node", node.name, "value", before, after, scope=scope, source=node.source)
    for node in gone:
        yield Change("cost", "removed", "node", node.name, expected=_described(node)[0], scope=path or None)


def _described(node: NodeRecord) -> tuple[str, str]:
    """Write a call without the names of its inputs, and the call's value."""
    texts = [*node.args, *(f"{keyword}={text}" for keyword, text in node.kwargs)]
    target = f"self.{node.target}" if node.op == "call_module" else f"{'.' * (node.op == 'call_method')}{node.target}"
    return f"{target}({', '.join(map(without_references, texts))})", node.value or ""


def _with_cost(text: str, cost: CostRecord | None) -> str:
    return text if cost is None else f"{text}, which costs {cost.flops:,} FLOPs and {cost.bytes:,} bytes"
