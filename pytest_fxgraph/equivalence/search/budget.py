"""The tries and seconds that one call may spend on its searches, and the reports of the searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_fxgraph.settings import SEARCH_SECONDS


class SearchReport(NamedTuple):
    """The account of one search without a find."""

    subject: str  # "graph (mode eval)"
    wanted: int
    tried: int
    seconds: float
    passed_over: tuple[tuple[str, int], ...] = ()  # the reason why tries say nothing about the graph, and their number
    kept_sizes: bool = False  # eager takes no other sizes, or the graph was made for the sizes of the example
    is_cut: bool = False  # the time was up

    @property
    def left_out(self) -> int:
        """Return the number of tries without time; a search with fewer different inputs than tries left out nothing."""
        return self.wanted - self.tried if self.is_cut else 0

    def __str__(self) -> str:
        text = f"{self.subject}: {self.tried} of {self.wanted} tries in {self.seconds:.1f} s, and no difference"
        if self.passed_over:
            text += "; passed over: " + ", ".join(f"{count} where {why}" for why, count in self.passed_over)
        if self.kept_sizes:
            text += "; all sizes were kept, for nothing takes others"
        if self.left_out:
            text += f"; the time was up, and {self.left_out} tries were left out: raise search_seconds, or lower search"
        return text


@dataclass
class SearchBudget:
    """The tries of each search, and the seconds that all searches of one call share.

    Raises ValueError if `tries` is not a whole number of at least 1, or `seconds` is not above 0.
    """

    tries: int
    seconds: float = SEARCH_SECONDS.default
    parts: int = 1  # the number of searches of the call: one for each mode and pass
    tell: Callable[[str], None] | None = None  # gets the report of each search without a find
    reports: list[SearchReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            raise ValueError(f"search must be a whole number of at least 1, or None for no search, got {self.tries!r}")
        if not self.seconds > 0:
            raise ValueError(f"search_seconds must be a number above 0, got {self.seconds!r}")

    def share(self) -> float:
        """Return the seconds of the next search."""
        spent = sum(report.seconds for report in self.reports)
        return max(0.0, self.seconds - spent) / max(1, self.parts - len(self.reports))

    def add(self, report: SearchReport) -> None:
        """Keep the report of a search, and tell it."""
        self.reports.append(report)
        if self.tell is not None:
            self.tell(str(report))
