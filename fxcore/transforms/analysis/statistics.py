"""The contents of a graph: operators and their costs, parameters by dtype; and the difference of two graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fxcore.transforms.analysis.costs import Cost, GraphCosts, aligned, cost_table, parameters_read, summed
from fxcore.transforms.analysis.memory import activation_memory


@dataclass(frozen=True)
class GraphStatistics:
    """Counts of a graph."""

    operators: Mapping[str, int]  # how often each is called, by the name that formulas know
    cost_by_operator: Mapping[str, Cost]
    parameters: Mapping[str, int]  # elements by dtype
    parameter_bytes: int
    total: Cost
    peak_activation: int

    def table(self) -> str:
        """Write a line for each operator, operators with most operations first."""
        rows = sorted(self.cost_by_operator.items(), key=lambda item: (-item[1].flops, -item[1].bytes, item[0]))
        return cost_table([*rows, ("total", self.total)]).replace("module", "operator", 1)


def graph_statistics(costs: GraphCosts) -> GraphStatistics:
    """Count the operators and parameters of a graph."""
    by_operator = summed((each.operator, each.cost) for each in costs.nodes)
    read = {id(each): each for node in costs.values.graph.nodes for each in parameters_read(node, costs.values)}
    parameters = Counter[str]()
    for parameter in read.values():
        parameters[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    size = sum(parameter.numel() * parameter.element_size() for parameter in read.values())
    counts = Counter(each.operator for each in costs.nodes)
    return GraphStatistics(counts, by_operator, parameters, size, costs.total, activation_memory(costs.values).peak)


def statistics_difference(expected: GraphStatistics, obtained: GraphStatistics) -> str:
    """Write the differences of two graphs in operators, costs, parameters and memory, a line each; "" if nothing."""
    rows = []
    for name in sorted(expected.operators.keys() | obtained.operators.keys()):
        counts = expected.operators.get(name, 0), obtained.operators.get(name, 0)
        costs = expected.cost_by_operator.get(name, Cost()), obtained.cost_by_operator.get(name, Cost())
        rows.append((f"{name}: calls", *counts))
        rows.append((f"{name}: FLOPs", costs[0].flops, costs[1].flops))
        rows.append((f"{name}: bytes", costs[0].bytes, costs[1].bytes))
    for dtype in sorted(expected.parameters.keys() | obtained.parameters.keys()):
        rows.append((f"parameters in {dtype}", expected.parameters.get(dtype, 0), obtained.parameters.get(dtype, 0)))
    rows.append(("parameter bytes", expected.parameter_bytes, obtained.parameter_bytes))
    rows.append(("total FLOPs", expected.total.flops, obtained.total.flops))
    rows.append(("total bytes", expected.total.bytes, obtained.total.bytes))
    rows.append(("peak activation memory", expected.peak_activation, obtained.peak_activation))
    lines = [
        (name, f"{before:,}", f"{after:,}", f"{after - before:+,}") for name, before, after in rows if before != after
    ]
    return aligned([("", "expected", "obtained", "change"), *lines]) if lines else ""
