"""Generated Python, and what it needs to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class PythonCode:
    """All that is needed to run or save a graph as Python."""

    src: str  # source of the forward function's definition
    globals: dict[str, Any]  # what the source refers to by name
    _lineno_map: dict[int, int | None] | None  # line, counted from the `def`, -> index of the node that it comes from
    _prologue_start: int = 0  # line of the `def` in `src`
