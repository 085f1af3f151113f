"""What one call may spend on its searches, and what they did with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

DEFAULT_SECONDS = 60.0


@dataclass(frozen=True)
class SearchReport:
    """What a search that found nothing did."""

    subject: str  # "graph (mode eval)"
    wanted: int
    tried: int
    seconds: float
    passed_over: tuple[tuple[str, int], ...] = ()  # why tries say nothing about the graph, and how many
    kept_sizes: bool = False  # eager takes no other sizes, or the graph was made for these alone
    is_cut: bool = False  # the time was up

    @property
    def left_out(self) -> int:
        """How many tries there was no time for; where there are fewer different inputs than tries, none is left out."""
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

    Raises ValueError for other than a whole number of tries, or seconds that are not above 0.
    """

    tries: int
    seconds: float = DEFAULT_SECONDS
    parts: int = 1  # how many searches are to come: one for each mode and pass
    tell: Callable[[str], None] | None = None  # is told of each search that ends without a find
    reports: list[SearchReport] = field(default_factory=list)
    _spent: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.tries, bool) or not isinstance(self.tries, int) or self.tries < 1:
            raise ValueError(f"search must be a whole number of at least 1, or None for no search, got {self.tries!r}")
        if not self.seconds > 0:
            raise ValueError(f"search_seconds must be a number above 0, got {self.seconds!r}")

    def share(self) -> float:
        """Return the seconds of the next search."""
        return max(0.0, self.seconds - self._spent) / max(1, self.parts - len(self.reports))

    def add(self, report: SearchReport) -> None:
        """Note what a search did."""
        self._spent += report.seconds
        self.reports.append(report)
        if self.tell is not None:
            self.tell(str(report))


class Stopwatch:
    """Tells the time since it was made, and whether it is up."""

    def __init__(self, seconds: float) -> None:
        """Start."""
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def elapsed(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._start

    @property
    def is_up(self) -> bool:
        """Tell whether the time is over."""
        return self.elapsed >= self._seconds
