"""The outcome of one comparison with a golden, as plain data that can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_fxgraph.budget import Allowances, allowances_of
from pytest_fxgraph.report.printable import printable_line

# "refused": an update was wanted, and was not made, because the test failed or the file could not be written.
STATUSES = ("matched", "mismatch", "missing", "updated", "refused", "error")
UPDATES = ("none", "new", "changed")


class Terms(NamedTuple):
    """How strictly a golden is compared; the fields are arguments of `compare_documents`."""

    level: str = "structure"
    commutative: bool = False
    normalize: bool = False
    constants: str = "exact"
    budget: Allowances | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the level, and each other term that is not the default, as values that JSON can hold."""
        given = {name: value for name, value in self._asdict().items() if value != self._field_defaults[name]}
        if self.budget is not None:
            given["budget"] = {
                metric: None if each is None else f"{each.amount!r}{'%' * each.is_percent}"
                for metric, each in self.budget.items()
            }
        return {**given, "level": self.level}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Terms:
        """Read the terms that `to_dict` returned. Raises ChoiceError for a budget of another form."""
        given = {name: data[name] for name in cls._fields if name in data}
        if given.get("budget") is not None:
            given["budget"] = allowances_of(given["budget"])
        return cls(**given)


class Told(NamedTuple):
    """A mismatch in words: the parts of an outcome that describe it."""

    headline: str
    lines: tuple[str, ...]  # of the assertion, at most six
    section: str = ""  # everything, for the report section
    cluster: str = ""
    changes: tuple[Mapping[str, Any], ...] = ()
    edits: tuple[Mapping[str, Any], ...] = ()
    graphs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


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
    new_text: str | None = None  # the text to write, if the test may write
    expected_digest: str | None = None  # sha256 of the golden's text that was compared with; None without a golden
    update: str = "none"  # one of UPDATES: why new_text is there
    received: str | None = None  # the text to keep beside the golden for `fxgraph accept`, if the test fails
    cluster: str = ""  # of a mismatch: the key that goldens share if they differ in the same way
    changes: tuple[Mapping[str, Any], ...] = ()  # of a mismatch: each difference as data, see `change_data`
    edits: tuple[Mapping[str, Any], ...] = ()  # of a mismatch: each edit as data, see `edit_data`
    graph_digest: str | None = None  # of a missing or new golden: an unused golden of the same graph shares it
    graphs: tuple[str, ...] = ()  # for reports with pictures: texts of the expected and obtained graph, or of one
    sources: tuple[str, ...] = ()  # with graphs: the line of the model's source of each obtained node, "" if unknown
    command: str = ""  # writes this golden, where a test failed that could write it
    is_alone: bool = True  # whether `command` writes no other golden, as far as is known
    # Of a golden that stands in its test: an InlinePlace as a dict, {} while nobody needs the place.
    inline: Mapping[str, Any] | None = None
    variant: str = ""  # of a missing or new golden: how the variant for the torch that ran ends, "@torch-2.13"
    terms: Mapping[str, Any] | None = None  # Terms as a dict; None for the defaults of `level`
    row: Mapping[str, Any] | None = None  # of a row of a table: a MeasuredRow as a dict

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"an outcome cannot be {self.status!r}; it is one of {', '.join(STATUSES)}")
        if self.update not in UPDATES:
            raise ValueError(f"an outcome's update cannot be {self.update!r}; it is one of {', '.join(UPDATES)}")

    @property
    def section_name(self) -> str:
        """Name the report section of this outcome."""
        return f"fx golden {printable_line(self.golden)}"

    @property
    def is_file(self) -> bool:
        """Tell whether the golden is a file of its own, neither a text in a test nor a row."""
        return self.inline is None and self.row is None

    @property
    def cause(self) -> dict[str, Any]:
        """The cause of the mismatch as values that JSON can hold: compared how, the headline and the cluster."""
        return {**(self.terms or {"level": self.level}), "headline": self.headline, "cluster": self.cluster}

    @property
    def has_failed(self) -> bool:
        """Return whether the golden neither matched nor was written."""
        return self.status not in ("matched", "updated")
