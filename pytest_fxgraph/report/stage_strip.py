"""The stages of a lowering as plain data, for a report that draws them side by side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StripNode:
    """A node of one stage."""

    name: str
    operator: str
    change: str  # "added", "kept", "rewritten", or "traced" in the first stage
    made_from: tuple[int, ...] = ()  # places of nodes in the previous stage
    module: str = ""
    source: str = ""


@dataclass(frozen=True)
class StripStage:
    """One stage, and the nodes of the previous stage that it removed."""

    name: str
    nodes: tuple[StripNode, ...]
    removed: tuple[int, ...] = ()  # places in the previous stage


@dataclass(frozen=True)
class StageStrip:
    """A model's lowering, as one call of `fx_stages` in one test followed it."""

    nodeid: str
    stages: tuple[StripStage, ...]
    text: str  # the whole lowering as text

    @property
    def title(self) -> str:
        """Name the stages in order."""
        return " \N{RIGHTWARDS ARROW} ".join(stage.name for stage in self.stages)
