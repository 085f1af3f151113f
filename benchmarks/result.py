"""What a benchmark found, as plain data, and as a table."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Table:
    """Rows of texts and numbers under a title; `higher` numbers are ratios over torch.fx."""

    title: str
    columns: Sequence[str]
    rows: list[list[Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the table as markdown."""
        lines = [f"| {' | '.join(self.columns)} |", f"|{'---|' * len(self.columns)}"]
        lines += [f"| {' | '.join([shown(cell) for cell in row])} |" for row in self.rows]
        return f"### {self.title}\n\n" + "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {"title": self.title, "columns": list(self.columns), "rows": self.rows}


def shown(cell: Any) -> str:
    """Return a cell as people read it: numbers with three digits that count."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def verdict(ratio: float, target: float) -> str:
    """Return whether a ratio reaches its target."""
    return "yes" if ratio >= target else "**no**"


def machine() -> str:
    """Describe the machine, as far as the numbers depend on it."""
    version = ".".join(map(str, sys.version_info[:3]))
    return f"Python {version}, torch {torch.__version__}, {platform.system()} {platform.machine()}"
