"""The table of all edits."""

from __future__ import annotations

from tests.outside_edits import devious, graphs, harmless, layer_arguments, statements, weights
from tests.outside_edits.edit import EDITS

THEMES = (layer_arguments, statements, weights, graphs, devious, harmless)

__all__ = ["EDITS", "THEMES"]
