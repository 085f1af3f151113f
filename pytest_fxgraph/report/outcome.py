"""The outcome of one comparison with a golden, as plain data that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pytest_fxgraph.report.printable import printable_line

# "refused" is what was to be updated and was not, because the test failed or the file could not be written.
STATUSES = ("matched", "mismatch", "missing", "updated", "refused", "error")
UPDATES = ("none", "new", "changed")


@dataclass(frozen=True)
class Outcome:
    """One golden, compared once by one test. Raises ValueError for an unknown status or update."""

    nodeid: str
    golden: str  # path relative to rootdir, with forward slashes
    level: str
    status: str  # one of STATUSES
    headline: str = ""
    lines: tuple[str, ...] = ()  # at most six, for the assertion itself
    section: str = ""  # everything, for the report section
    new_text: str | None = None  # what is to be written, if the test may write
    expected_digest: str | None = None  # sha256 of the golden's text that was compared with; None where there was none
    update: str = "none"  # one of UPDATES: why new_text is there
    received: str | None = None  # what is to be kept beside the golden for `fxgraph accept`, if the test fails
    cluster: str = ""  # of a mismatch: the key that all goldens share which differ in the same way
    changes: tuple[Mapping[str, Any], ...] = ()  # of a mismatch: each difference as data, see `change_data`
    graph_digest: str | None = None  # of a missing or new golden: what an unused one may share with it
    graphs: tuple[str, ...] = ()  # for a report with pictures: texts of the expected and the obtained, or of this alone
    sources: tuple[str, ...] = ()  # with them: the line of the model's source of each obtained node, "" if not known
    command: str = ""  # writes this golden, where a test failed that could write it
    # Of a golden that stands in its test: the file, its digest and where the call ends, {} where nobody had to know.
    inline: Mapping[str, Any] | None = None
    variant: str = ""  # of a missing or new golden: how the variant for the torch that ran ends, "@torch-2.13"

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"an outcome cannot be {self.status!r}; it is one of {', '.join(STATUSES)}")
        if self.update not in UPDATES:
            raise ValueError(f"an outcome's update cannot be {self.update!r}; it is one of {', '.join(UPDATES)}")

    @property
    def section_name(self) -> str:
        """Name the report section that tells everything."""
        return f"fx golden {printable_line(self.golden)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as values that JSON and pytest-xdist can send."""
        return {**asdict(self), "lines": list(self.lines), "changes": [dict(change) for change in self.changes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Outcome:
        """Read what `to_dict` returned; fields that this release does not know are left out."""
        known = {field.name for field in fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        lists = {name: tuple(data.get(name, ())) for name in ("lines", "changes", "graphs", "sources")}
        return cls(**{**values, **lists})

    @property
    def has_failed(self) -> bool:
        """Return whether the golden neither matched nor was written."""
        return self.status not in ("matched", "updated")
