"""The report of a fusion: the joined layers, and the layers left alone with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from fxcore.passes.infra.pass_base import PassResult

__all__ = ["Fused", "FusionReport", "FusionResult", "Left"]


@dataclass(frozen=True)
class Fused:
    """A layer that does the work of another now."""

    layer: str  # the path of its module, or the name of its node
    joined: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.layer} + {' + '.join(self.joined)}"


@dataclass(frozen=True)
class Left:
    """Something that could have been fused by its kind, and why it was not."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class FusionReport:
    """The joined layers in the order of the graph, and the layers left alone."""

    fused: tuple[Fused, ...] = ()
    left: tuple[Left, ...] = ()

    def __str__(self) -> str:
        lines = [f"fused {len(self.fused)}", *(f"  {each}" for each in self.fused)]
        lines += [f"left alone {len(self.left)}", *(f"  {each}" for each in self.left)]
        return "\n".join(lines)


class FusionResult(PassResult):
    """A PassResult with a report."""

    report: FusionReport

    def __new__(cls, graph_module: nn.Module, modified: bool, report: FusionReport) -> FusionResult:
        """Make a result. `report` is no item, so that the result unpacks into two items like any PassResult."""
        made = super().__new__(cls, graph_module, modified)
        made.report = report
        return made
