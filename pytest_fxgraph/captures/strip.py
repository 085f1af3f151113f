"""What `fx_stages` returned as plain data, for a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_fxgraph.report.stage_strip import StageStrip, StripNode, StripStage


class _Node(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def made_from(self) -> Sequence[_Node]: ...
    @property
    def scope(self) -> str | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def change(self) -> str: ...


class _Stage(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def nodes(self) -> Sequence[_Node]: ...
    @property
    def removed(self) -> Sequence[_Node]: ...


def strip_of(stages: Sequence[_Stage], text: str, nodeid: str = "") -> StageStrip:
    """Return stages as plain data, with nodes of the stage before named by their places."""
    places: dict[int, int] = {}
    found = []
    for number, stage in enumerate(stages):
        nodes = tuple(
            StripNode(
                node.name,
                node.operator,
                node.change if number else "traced",
                tuple(places[id(each)] for each in node.made_from if id(each) in places),
                node.scope or "",
                node.source or "",
            )
            for node in stage.nodes
        )
        removed = tuple(places[id(node)] for node in stage.removed if id(node) in places)
        found.append(StripStage(stage.name, nodes, removed))
        places = {id(node): place for place, node in enumerate(stage.nodes)}
    return StageStrip(nodeid, tuple(found), text)
