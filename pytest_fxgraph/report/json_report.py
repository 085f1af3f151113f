"""The report of a run as JSON: the outcome of each golden, and the data for `fxgraph report --unused`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.grouping import grouped
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.plain_data import record_of
from pytest_fxgraph.report.run_record import RunRecord

if TYPE_CHECKING:
    from pytest_fxgraph.report.numeric_failure import NumericFailure
    from pytest_fxgraph.report.stage_strip import StageStrip

_Taken = TypeVar("_Taken")

FORMAT = 1
ACCEPT = "fxgraph accept --cluster"
_FAILURE = ("nodeid", "headline", "section", "check", "source")
_REMEDY = "give a file that pytest --fx-report wrote"


@dataclass(frozen=True)
class RunReport:
    """The results of one run."""

    summary: str  # one line; empty if no golden was compared
    record: RunRecord
    outcomes: Sequence[Outcome] = ()
    unused: Sequence[str] = ()
    sections: Sequence[str] = ()  # texts of the hook pytest_fxgraph_report_section
    failures: Sequence[NumericFailure] = ()  # of fx_equivalence, fx_transform and fx_capture
    strips: Sequence[StageStrip] = ()  # of fx_stages
    environment: Mapping[str, str] = field(default_factory=dict)  # facts by name: "commit", "torch", "platform", ...
    accept: str = ACCEPT  # the command that accepts a cluster, without the key; "" if none can
    # Words of the heading, of a thing that is compared, and of the option that writes a page; a replay has others.
    title: str = "Graphs and goldens"
    noun: str = "golden"
    page_option: str = "--fx-report x.html"

    def failed_by_cause(self) -> list[tuple[Outcome, ...]]:
        """Return the failed goldens by cluster, the cluster of most goldens first.

        A golden has one outcome, however many tests compared it. A golden without a cluster stands alone.
        """
        failed: dict[str, Outcome] = {}
        for outcome in self.outcomes:
            if outcome.has_failed:
                failed.setdefault(outcome.golden, outcome)
        groups = grouped(failed.values(), lambda outcome: outcome.cluster or f"golden {outcome.golden}")
        return sorted(map(tuple, groups.values()), key=lambda group: -len(group))

    def commands_for(self, cause: Sequence[Outcome]) -> dict[str, str]:
        """Map each command that accepts goldens of one cause to the words for them; "" for one golden alone."""
        in_files = [outcome for outcome in cause if outcome.inline is None]
        told = {outcome.command: "" if outcome.is_alone else "all goldens of its test" for outcome in cause}
        if len(in_files) > 1 and self.accept:
            told = {outcome.command: told[outcome.command] for outcome in cause if outcome.inline is not None}
            many = f"all {len(in_files)} goldens of this cause{' in files' if told else ''}"
            told = {f"{self.accept} {cause[0].cluster}": many, **told}
        return {command: words for command, words in told.items() if command}


def json_text(report: RunReport) -> str:
    """Return a report as JSON. The texts of goldens are left out, because they are on disk."""
    data = {
        "format": FORMAT,
        "summary": report.summary,
        "accept": report.accept,
        "outcomes": [_shown(outcome) for outcome in report.outcomes],
        "unused": list(report.unused),
        "sections": list(report.sections),
        "failures": [{name: getattr(each, name) for name in _FAILURE} for each in report.failures],
        "run": asdict(report.record),
        "environment": dict(report.environment),
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def read_record(path: Path) -> RunRecord:
    """Read the record of its run from a report. Raises ReportError for anything but a report of this format."""
    return _read(path, lambda data: record_of(RunRecord, data["run"]))


def read_report(path: Path) -> RunReport:
    """Read a report without graphs. Raises ReportError for anything but a report of this format."""
    return _read(path, _report_of)


def _read(path: Path, take: Callable[[dict[str, Any]], _Taken]) -> _Taken:
    try:
        # A read from a FIFO would wait for a writer.
        if path.exists() and not path.is_file():
            raise ReportError(f"cannot read the report {path}: it is no file; {_REMEDY}")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ReportError(
            f"cannot read the report {path}: {(error.strerror or str(error)).lower()}; {_REMEDY}"
        ) from None
    except (ValueError, RecursionError):
        raise ReportError(f"cannot read the report {path}: it is not JSON; {_REMEDY}") from None
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT or isinstance(found, bool):
        reason = f"its format is {found!r:.40}, and this release reads {FORMAT}"
        raise ReportError(f"cannot read the report {path}: {reason}; {_REMEDY}, of the same release")
    try:
        return take(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ReportError(f"cannot read the report {path}: {reason}; {_REMEDY}") from None


def _report_of(data: Mapping[str, Any]) -> RunReport:
    # Here, because runs of pytest write reports and read no report.
    from pytest_fxgraph.report.numeric_failure import NumericFailure

    return RunReport(
        str(data["summary"]),
        record_of(RunRecord, data["run"]),
        tuple(record_of(Outcome, each) for each in data["outcomes"]),
        tuple(map(str, data["unused"])),
        tuple(map(str, data["sections"])),
        # Reports of earlier releases have no failures.
        tuple(record_of(NumericFailure, each) for each in data.get("failures", ())),
        environment={str(name): str(fact) for name, fact in data.get("environment", {}).items()},
        accept=str(data.get("accept", ACCEPT)),
    )


def _shown(outcome: Outcome) -> dict[str, Any]:
    data = asdict(outcome)
    for text in ("new_text", "received", "graphs", "sources", "terms", "row"):
        data.pop(text)
    return {**data, "inline": None if outcome.inline is None else {}}  # its place is of use to the run alone
