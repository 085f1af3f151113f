"""The search for the first of many revisions or environments whose graphs differ from the first one's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.findings import Findings
from pytest_fxgraph.replay.revisions import Repository

# Returns the findings of one candidate against the good one. Raises RecordingError if its run leaves no recording.
Compare = Callable[[str], Findings]


class Found(NamedTuple):
    """The end of a search."""

    first: str  # the first candidate with other graphs; "" if the last one has the graphs of the first
    findings: Findings | None
    between: Sequence[str]  # candidates that may be the first as well, because they could not be recorded


def first_changed_commit(repository: Repository, good: str, bad: str, compare: Compare) -> Found:
    """Return the commit that first changed the graphs, in the order of git bisect.

    A commit without a recording is passed over. Raises RecordingError if there is no recording of `bad`, or if `bad`
    does not descend from `good`.
    """
    goods, skipped = [good], dict[str, str]()
    findings = compare(bad)
    if not findings.found:
        return Found("", findings, ())
    if repository.candidates(good, [bad]):
        raise RecordingError(
            f"cannot bisect: {repository.title(bad)} does not descend from {repository.title(good)}; give an older "
            "commit as GOOD, for example their merge base"
        )
    while True:
        left = [commit for commit in repository.candidates(bad, goods) if commit != bad]
        middle = next((commit for commit in left if commit not in skipped), None)
        if middle is None:
            return Found(bad, findings, left)
        try:
            found = compare(middle)
        except RecordingError as error:
            skipped[middle] = str(error)
            continue
        if found.found:
            bad, findings = middle, found
        else:
            goods.append(middle)


def first_changed_of(candidates: Sequence[str], compare: Compare) -> Found:
    """Return the first of ordered candidates, such as interpreters, with other graphs than the first candidate's."""
    good, bad = 0, len(candidates) - 1
    skipped: set[int] = set()
    findings = compare(candidates[bad])
    if not findings.found:
        return Found("", findings, ())
    while True:
        left = [place for place in range(good + 1, bad) if place not in skipped]
        if not left:
            return Found(candidates[bad], findings, candidates[good + 1 : bad])
        middle = left[len(left) // 2]
        try:
            found = compare(candidates[middle])
        except RecordingError:
            skipped.add(middle)
            continue
        if found.found:
            bad, findings = middle, found
        else:
            good = middle
