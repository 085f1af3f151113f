"""The table of all transforms."""

from __future__ import annotations

from tests.outside_transforms import (
    edges,
    gradients,
    kinds,
    memory,
    right,
    sizes,
    state,
    surroundings,
    training,
    vacuous,
    values,
)
from tests.outside_transforms.case import CASES

THEMES = (values, edges, sizes, gradients, memory, state, training, kinds, vacuous, surroundings, right)

__all__ = ["CASES", "THEMES"]
