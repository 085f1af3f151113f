"""The report of a run as JSON: the outcome of each golden, and what `fxgraph unused` needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_fxgraph.errors import ReportError
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.run_record import RunRecord

if TYPE_CHECKING:
    from pytest_fxgraph.report.numeric_failure import NumericFailure
    from pytest_fxgraph.report.stage_strip import StageStrip

FORMAT = 1
_REMEDY = "give a file that pytest --fx-report wrote"


@dataclass(frozen=True)
class RunReport:
    """The results of one run."""

    summary: str  # in one line; empty where no golden was compared
    record: RunRecord
    outcomes: Sequence[Outcome] = ()
    unused: Sequence[str] = ()
    sections: Sequence[str] = ()  # what hooks have to say
    failures: Sequence[NumericFailure] = ()  # of fx_equivalence and fx_transform
    strips: Sequence[StageStrip] = ()  # of fx_stages


def json_text(report: RunReport) -> str:
    """Return a report as JSON, without the texts of goldens, which are on disk."""
    data = {
        "format": FORMAT,
        "summary": report.summary,
        "outcomes": [_shown(outcome) for outcome in report.outcomes],
        "unused": list(report.unused),
        "sections": list(report.sections),
        "run": report.record.to_dict(),
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def read_record(path: Path) -> RunRecord:
    """Read the record of its run from a report. Raises ReportError for anything but a report of this format."""
    try:
        # Reading a FIFO would wait for somebody who writes to it.
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
        return RunRecord.from_dict(data["run"])
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ReportError(f"cannot read the report {path}: {reason}; {_REMEDY}") from None


def _shown(outcome: Outcome) -> dict[str, Any]:
    data = outcome.to_dict()
    for text in ("new_text", "received", "graphs", "sources", "inline"):
        data.pop(text)
    return data
