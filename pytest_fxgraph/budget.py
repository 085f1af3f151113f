"""The allowed difference between the costs of a graph and the costs of its golden. This file imports no torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_fxgraph.errors import ChoiceError, VacuousCheckError

# The judged metrics, in the order of the report.
METRICS = ("flops", "bytes", "params", "peak_activation", "nodes")
_ALLOWANCE = re.compile(r"\+?(\d+(?:\.\d+)?)\s*(%?)\Z")

# A user's budget: {"flops": "+1%", "params": 0, "bytes": None}.
Budget = Mapping[str, "str | int | None"]


@dataclass(frozen=True)
class Allowance:
    """The allowed difference of one metric."""

    amount: float
    is_percent: bool = False

    def allows(self, expected: int, obtained: int) -> bool:
        """Return whether the obtained metric is near enough, upwards and downwards."""
        room = expected * self.amount / 100 if self.is_percent else self.amount
        return abs(obtained - expected) <= room

    def __str__(self) -> str:
        return f"{self.amount:g}%" if self.is_percent else f"{self.amount:,.0f}"


# Metric to its allowance; None for a metric that is not judged.
Allowances = Mapping[str, "Allowance | None"]


def allowances_of(budget: Budget | None) -> Allowances:
    """Return the allowance of every metric: 0 for a metric that the budget leaves out, None for a metric set to None.

    Raises ChoiceError for a budget of another form; the message names the fault. Raises VacuousCheckError for a budget
    that leaves out every metric.
    """
    if budget is None:
        budget = {}
    if not isinstance(budget, Mapping):
        raise ChoiceError(f"a budget is a dict such as {{'flops': '+1%', 'params': 0}}, not {budget!r}")
    unknown = [name for name in budget if name not in METRICS]
    if unknown:
        raise ChoiceError(f"there is no cost {unknown[0]!r}; there are {', '.join(METRICS)}")
    allowances = {name: _allowance(name, budget.get(name, 0)) for name in METRICS}
    if all(allowance is None for allowance in allowances.values()):
        raise VacuousCheckError(
            f"the budget {dict(budget)!r} leaves out every cost, so that no graph could fail; "
            "allow a part of one cost ('+10%'), or compare at another level"
        )
    return allowances


def _allowance(name: str, value: object) -> Allowance | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Allowance(value)
    found = _ALLOWANCE.match(value.strip()) if isinstance(value, str) else None
    if found is None or not math.isfinite(float(found[1])):
        raise ChoiceError(
            f"{name}: {value!r} is no allowance; write '+1%' of the golden's cost, a number such as 4096, "
            "0 for exactly as much, or None to leave it out"
        )
    return Allowance(float(found[1]), bool(found[2]))
