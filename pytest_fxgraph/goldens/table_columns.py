"""The columns of a table: their names, their better direction, and the comparison of two rows. Knows no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_fxgraph.budget import METRICS
from pytest_fxgraph.errors import ChoiceError
from pytest_fxgraph.goldens.table_rows import Row, Values, number_text

# The noun for one, by column. Fewer are better in all columns.
COUNTED: Mapping[str, str] = {
    "graphs": "graph",
    "breaks": "graph break",
    "recompiles": "recompile",
    "skipped": "function left to Python",
    "fallbacks": "function compiled too often",
    "operators": "operator",
    "nodes": "node",
}
# Columns of costs. A table counts all "nodes", with nodes that only pick an item.
COSTS = (*(metric for metric in METRICS if metric != "nodes"), "uncounted")
# Columns of a program of ranks: the memory of one rank. Each collective of each group has a column of its own.
RANK_MEMORY = ("memory_parameters", "memory_gradients", "memory_optimizer")
SENT_BYTES = "sent_bytes_"  # begins the names of these columns
QUANTIZED = "quantized"  # tensors; a row without quantized tensors does not have this column
KERNELS, KERNEL_BYTES = "kernels", "kernel_bytes"  # only of a row that Inductor compiled
_LOWER_IS_BETTER = frozenset((*COUNTED, *COSTS, *RANK_MEMORY, KERNELS, KERNEL_BYTES))


@dataclass(frozen=True)
class ColumnRule:
    """The allowed difference of a column, and its better direction."""

    tolerance: float = 0.0
    is_relative: bool = False
    better: str | None = None  # "lower", "higher"

    def accepts(self, expected: float, obtained: float) -> bool:
        """Tell whether a number is near enough to the expected one."""
        allowed = self.tolerance * abs(expected) if self.is_relative else self.tolerance
        return abs(obtained - expected) <= allowed


def rule_of(column: str, tolerance: Mapping[str, Any], better: Mapping[str, str]) -> ColumnRule:
    """Read the rule of a column from the options of a test. Raises ChoiceError for a wrong word or number."""
    is_lower_better = column in _LOWER_IS_BETTER or column.startswith(SENT_BYTES)
    direction = better.get(column, "lower" if is_lower_better else None)
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


def check_rules(columns: Mapping[str, Any], tolerance: Mapping[str, Any], better: Mapping[str, str]) -> None:
    """Raise ChoiceError for a wrong rule, or a rule of an unknown column."""
    for column in (*tolerance, *better):
        if column not in columns:
            raise ChoiceError(f"there is no column {column!r}; there are {', '.join(sorted(columns))}")
        rule_of(column, tolerance, better)


def differences(
    expected: Values, obtained: Values, tolerance: Mapping[str, Any], better: Mapping[str, str]
) -> Iterator[str]:
    """Describe each column that differs by more than it may; one that improves differs, too.

    Raises ChoiceError for a wrong rule.
    """
    check_rules({**expected, **obtained}, tolerance, better)
    if QUANTIZED in expected or QUANTIZED in obtained:
        expected, obtained = {QUANTIZED: 0, **expected}, {QUANTIZED: 0, **obtained}
    for column in sorted({*expected, *obtained}):
        if column not in obtained:
            yield f"{column} was {number_text(expected[column])}, and was not measured"
        elif column not in expected:
            yield f"{column} is {number_text(obtained[column])}, and the row does not have it"
        else:
            rule = rule_of(column, tolerance, better)
            if not rule.accepts(expected[column], obtained[column]):
                yield _change(column, expected[column], obtained[column], rule)


def row_differences(expected: Mapping[str, Row], obtained: Mapping[str, Row]) -> Iterator[str]:
    """Describe each row that came, went or has other numbers, however little they differ."""
    for name in sorted({*expected, *obtained}):
        before, after = expected.get(name), obtained.get(name)
        if before is None or after is None:
            found = after or before
            numbers = (
                ", ".join(f"{column} {number_text(value)}" for column, value in found.values.items()) if found else ""
            )
            yield f"{'-' if after is None else '+'} {name}: {numbers}"
            continue
        lines = [*differences(before.values, after.values, {}, {})]
        if before.test != after.test:
            lines.append(f"belongs to {after.test} in place of {before.test}")
        yield from (f"~ {name}: {line}" for line in lines)


def _change(column: str, expected: float, obtained: float, rule: ColumnRule) -> str:
    words = f"{column} {number_text(expected)} -> {number_text(obtained)}"
    if rule.better is None:
        return words
    is_better = (obtained < expected) == (rule.better == "lower")
    noun, count = COUNTED.get(column), abs(obtained - expected)
    amount = f" ({_amount(count, noun)} {'fewer' if obtained < expected else 'more'})" if noun else ""
    if not noun and column in METRICS and expected:
        amount = f" ({obtained / expected - 1:+.2%})"
    return f"{words}{amount}{', which is better: accept it' if is_better else ', which is worse'}"


def _amount(count: float, noun: str) -> str:
    plural = noun.replace("function ", "functions ") if noun.startswith("function") else f"{noun}s"
    return f"one {noun}" if count == 1 else f"{number_text(count)} {plural}"
