"""The records of an index: a line of JSON each, in the order of the events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_fxgraph.errors import RecordingError

FORMAT = 1
IS_OF_COMMAND = "FXGRAPH_IS_OF_COMMAND"  # the variable that `fxgraph replay`, `bisect` and `repeat` set for their runs


class StartRecord(NamedTuple):
    """The process that recorded: the first line of each index."""

    process: str  # a name no other index has
    arguments: Sequence[str]  # of pytest
    kinds: Sequence[str]
    environment: Mapping[str, str]  # versions of torch, Python, the plugin; the platform; the commit
    worker: str = ""  # of pytest-xdist
    format: int = FORMAT
    started: float = 0.0  # seconds since 1970
    seeded: bool = False  # with --fx-record-seeded


class GraphRecord(NamedTuple):
    """One graph that a test made. The text of the graph lies in the store under its hash."""

    test: str  # the test's id; "" outside any test
    order: int  # among the graphs of the test
    kind: str  # one of RECORDED_KINDS
    model: str  # the class of the model or the name of the function, with its module
    graph: str  # the hash that the store knows
    line: str = ""  # the user's line that asked for the graph: `tests/test_model.py:12`
    facts: Mapping[str, Any] = {}  # of a compilation: breaks, recompiles, guards


class LeftOutRecord(NamedTuple):
    """One graph that could not be kept."""

    test: str
    kind: str
    model: str
    reason: str
    line: str = ""


class OutcomeRecord(NamedTuple):
    """The begin or the outcome of a test."""

    test: str
    # passed, failed, skipped; "" when the test begins; rerun: the attempt does not count, and another one follows
    outcome: str


class EndRecord(NamedTuple):
    """The end of the process: the last line of each index. A process without it was cut off."""

    tests: int
    graphs: int  # records of graphs
    modules: Mapping[str, str] = {}  # imported modules outside any package and Python's own, with their files


Record = StartRecord | GraphRecord | LeftOutRecord | OutcomeRecord | EndRecord
_NAMES: dict[str, type[Any]] = {
    "run": StartRecord,
    "graph": GraphRecord,
    "left out": LeftOutRecord,
    "test": OutcomeRecord,
    "end": EndRecord,
}
_NAME_OF = {kind: name for name, kind in _NAMES.items()}


def to_line(record: Record) -> str:
    """Return a record as one line of JSON, without the line's end."""
    return json.dumps({"record": _NAME_OF[type(record)], **record._asdict()}, ensure_ascii=False)


def from_line(line: str, origin: str) -> Record:
    """Read a line of an index. Raises RecordingError, naming `origin`, for any other text."""
    try:
        fields = json.loads(line)
        record: Record = _NAMES[fields.pop("record")](**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"cannot read {origin}: it is no record of an index ({str(error) or type(error).__name__}); "
            "record the run again"
        ) from None
    if isinstance(record, StartRecord) and record.format != FORMAT:
        raise RecordingError(
            f"cannot read {origin}: its format is {record.format}, this version reads {FORMAT}; record the run again"
        )
    return record
