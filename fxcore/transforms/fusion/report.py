"""The report of a fusion: the joined layers, and the layers left alone with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A layer of a kind that can be fused, and the reason why it was not."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def counted(title: str, items: Sequence[object]) -> list[str]:
    """Return a line with a title and the number of items, and a line for each item."""
    return [f"{title} {len(items)}", *(f"  {each}" for each in items)]


@dataclass(frozen=True)
class FusionReport:
    """The joined layers in the order of the graph, and the layers left alone."""

    fused: tuple[Fused, ...] = ()
    left: tuple[Left, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*counted("fused", self.fused), *counted("left alone", self.left)])


class FusionResult(PassResult):
    """A PassResult with a report."""

    report: FusionReport

    def __new__(cls, graph_module: nn.Module, modified: bool, report: FusionReport) -> FusionResult:
        """Make a result. `report` is no item, so that the result unpacks into two items like any PassResult."""
        made = super().__new__(cls, graph_module, modified)
        made.report = report
        return made
