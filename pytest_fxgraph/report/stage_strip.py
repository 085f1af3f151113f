"""The stages of a lowering as plain data, for a report that draws them beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class StripNode:
    """A node of one stage."""

    name: str
    operator: str
    change: str  # "added", "kept", "rewritten", or "traced" in the first stage
    made_from: tuple[int, ...] = ()  # places of the nodes of the stage before
    module: str = ""
    source: str = ""


@dataclass(frozen=True)
class StripStage:
    """One stage, and which nodes of the stage before it has no longer."""

    name: str
    nodes: tuple[StripNode, ...]
    removed: tuple[int, ...] = ()  # places in the stage before


@dataclass(frozen=True)
class StageStrip:
    """A model's way through its lowering, as one call of `fx_stages` in one test followed it."""

    nodeid: str
    stages: tuple[StripStage, ...]
    text: str  # all of it in words

    @property
    def title(self) -> str:
        """Name the stages in order."""
        return " \N{RIGHTWARDS ARROW} ".join(stage.name for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return the strip as values that pytest-xdist can send."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StageStrip:
        """Read what `to_dict` returned."""
        stages = tuple(
            StripStage(
                stage["name"],
                tuple(StripNode(**{**node, "made_from": tuple(node["made_from"])}) for node in stage["nodes"]),
                tuple(stage["removed"]),
            )
            for stage in data["stages"]
        )
        return cls(data["nodeid"], stages, data["text"])
