"""The goldens that no test asks for. In doubt a golden is unknown, and an unknown golden is never unused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from pytest_fxgraph.goldens.files import base_path
from pytest_fxgraph.report.run_record import Ids, RunRecord


def unused_goldens(records: Sequence[RunRecord]) -> list[str]:
    """Name the goldens that were unused in all of these runs together, with their variants and received files.

    A golden is judged only if its test file is gone and a whole run had no path arguments, or if its file was
    collected without error or skip, nothing in it was left out, and every test ran to its end, in one run or another.
    """
    judged = judged_files(records)
    # A variant goes with its base, and keeps it in use.
    asked = {_base(golden) for record in records for golden in record.asked}
    candidates = {golden: file for record in records for golden, file in record.others.items()}
    return sorted(golden for golden, file in candidates.items() if file in judged and _base(golden) not in asked)


def judged_files(records: Sequence[RunRecord]) -> set[str]:
    """Name the test files whose goldens can be judged: all their tests ran, or they are gone.

    One shard may run the tests that another shard left out.
    """
    ended = _merged(record.ended for record in records)
    failed = _merged(record.failed for record in records)
    found = _merged(record.found for record in records)
    judged = {file for file, ids in found.items() if ids <= ended.get(file, set()) and not failed.get(file)}
    whole = (record for record in records if record.finished and not record.had_path_arguments)
    return judged.union(*(record.gone for record in whole))


def _merged(parts: Iterable[Ids]) -> dict[str, set[str]]:
    merged: dict[str, set[str]] = {}
    for part in parts:
        for file, ids in part.items():
            merged.setdefault(file, set()).update(ids)
    return merged


def _base(golden: str) -> str:
    return str(base_path(PurePosixPath(golden)))
