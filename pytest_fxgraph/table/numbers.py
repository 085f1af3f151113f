"""The numbers that a table keeps of a subject, and how two of them are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_fxgraph.compare.ops import operator_counts
from pytest_fxgraph.document.builder import build_document
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.errors import ChoiceError, GateError
from pytest_fxgraph.frontends.capture import Capture
from pytest_fxgraph.table.rows import Values, number_text

# By column: what one of them is called. Of all, fewer are better.
COUNTED: Mapping[str, str] = {
    "graphs": "graph",
    "breaks": "graph break",
    "recompiles": "recompile",
    "skipped": "function left to Python",
    "fallbacks": "function compiled too often",
    "operators": "operator",
    "nodes": "node",
}


def numbers_of(subject: Any) -> dict[str, int | float]:
    """Count the graphs, breaks, operators and nodes of a capture or graph module.

    Raises CaptureError for a capture without any graph, and where torch does not tell of breaks.
    """
    graphs = [subject]
    numbers = dict.fromkeys(COUNTED, 0)
    if isinstance(subject, Capture):
        subject.refuse_empty()
        graphs = subject.graphs
        numbers["breaks"], numbers["recompiles"] = len(subject.breaks), len(subject.recompiles)
        numbers["skipped"], numbers["fallbacks"] = len(subject.skipped), len(subject.fallbacks)
    documents = [build_document(graph, constants="shape", sources=False) for graph in graphs]
    numbers["graphs"] = len(graphs)
    numbers["operators"] = sum(sum(operator_counts(document).values()) for document in documents)
    numbers["nodes"] = sum(map(_nodes_in, documents))
    return dict(numbers)


def _nodes_in(document: GraphDocument) -> int:
    inner = sum(_nodes_in(module.graph) for module in document.modules if module.graph is not None)
    return len(document.nodes) + inner


def checked_numbers(values: Mapping[str, Any], row: str) -> dict[str, int | float]:
    """Return what a test measured itself; raises GateError for what is no finite number, as NaN would match nothing."""
    for column, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise GateError(
                f"column {column!r} of row {row!r} is {value!r}: a table holds finite numbers; find out why it is none"
            )
    return dict(values)


@dataclass(frozen=True)
class ColumnRule:
    """By how much a column may differ, and which way is better."""

    tolerance: float = 0.0
    is_relative: bool = False
    better: str | None = None  # "lower", "higher"

    def accepts(self, expected: float, obtained: float) -> bool:
        """Tell whether a number is near enough to the expected one."""
        allowed = self.tolerance * abs(expected) if self.is_relative else self.tolerance
        return abs(obtained - expected) <= allowed


def rule_of(column: str, tolerance: Mapping[str, Any], better: Mapping[str, str]) -> ColumnRule:
    """Read the rule of a column from what a test asks for; raises ChoiceError for a word or number that is none."""
    direction = better.get(column, "lower" if column in COUNTED else None)
    if direction not in (None, "lower", "higher"):
        raise ChoiceError(f"better={{{column!r}: {direction!r}}} is neither 'lower' nor 'higher'")
    given = tolerance.get(column, 0)
    is_relative = isinstance(given, str) and given.endswith("%")
    try:
        number = float(given.removesuffix("%")) / 100 if is_relative else float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ChoiceError(f"tolerance={{{column!r}: {given!r}}}: expected a number such as 2, or a part such as '5%'")
    return ColumnRule(number, is_relative, direction)


def differences(
    expected: Values, obtained: Values, tolerance: Mapping[str, Any], better: Mapping[str, str]
) -> Iterator[str]:
    """Describe each column that differs by more than it may; one that improves differs, too."""
    unknown = [column for column in (*tolerance, *better) if column not in {*expected, *obtained}]
    if unknown:
        raise ChoiceError(f"there is no column {unknown[0]!r}; there are {', '.join(sorted({*expected, *obtained}))}")
    for column in sorted({*expected, *obtained}):
        if column not in obtained:
            yield f"{column} was {number_text(expected[column])}, and was not measured"
        elif column not in expected:
            yield f"{column} is {number_text(obtained[column])}, and the row does not have it"
        else:
            rule = rule_of(column, tolerance, better)
            if not rule.accepts(expected[column], obtained[column]):
                yield _change(column, expected[column], obtained[column], rule)


def _change(column: str, expected: float, obtained: float, rule: ColumnRule) -> str:
    words = f"{column} {number_text(expected)} -> {number_text(obtained)}"
    if rule.better is None:
        return words
    is_better = (obtained < expected) == (rule.better == "lower")
    noun, count = COUNTED.get(column), abs(obtained - expected)
    amount = f" ({_amount(count, noun)} {'fewer' if obtained < expected else 'more'})" if noun else ""
    return f"{words}{amount}{', which is better: accept it' if is_better else ', which is worse'}"


def _amount(count: float, noun: str) -> str:
    plural = noun.replace("function ", "functions ") if noun.startswith("function") else f"{noun}s"
    return f"one {noun}" if count == 1 else f"{number_text(count)} {plural}"
