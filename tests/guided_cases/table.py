"""The table of all cases."""

from __future__ import annotations

from tests.guided_cases import (
    aliasing,
    arguments,
    beside,
    contents,
    modes,
    numbers,
    python,
    refusals,
    sizes,
    state,
    structure,
    types,
)
from tests.guided_cases.case import ALL, Case

THEMES = (structure, arguments, sizes, types, modes, state, contents, aliasing, python, numbers, refusals, beside)
CASES: tuple[Case, ...] = tuple(ALL)
