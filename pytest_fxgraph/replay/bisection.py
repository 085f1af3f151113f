"""The search for the first of many revisions or environments with other graphs, and for the smallest set of flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import NamedTuple

from pytest_fxgraph.errors import RecordingError
from pytest_fxgraph.replay.findings import Findings
from pytest_fxgraph.replay.revisions import Repository

# Returns the findings of one candidate against the good one. Raises RecordingError if its run leaves no recording.
Compare = Callable[[str], Findings]
# Returns the candidates up to a bad one, without those that good ones rule out; the most telling one first.
Candidates = Callable[[str, Sequence[str]], Sequence[str]]


class Found(NamedTuple):
    """The end of a search."""

    first: str  # the first candidate with other graphs, or a set; "" if the last one has the graphs of the first
    findings: Findings
    between: Sequence[str]  # candidates that may be the first as well, because they could not be recorded


def first_changed_commit(repository: Repository, good: str, bad: str, compare: Compare) -> Found:
    """Return the commit that first changed the graphs, in the order of git bisect.

    A commit without a recording is passed over. Raises RecordingError if there is no recording of `bad`, or if `bad`
    does not descend from `good`.
    """
    if repository.candidates(good, [bad]):
        raise RecordingError(
            f"cannot bisect: {repository.title(bad)} does not descend from {repository.title(good)}; give an older "
            "commit as GOOD, for example their merge base"
        )
    return _first_changed(good, bad, repository.candidates, compare)


def first_changed_of(names: Sequence[str], compare: Compare) -> Found:
    """Return the first of ordered names, such as interpreters, with other graphs than the first. Raises as above."""

    def candidates(bad: str, goods: Sequence[str]) -> list[str]:
        left = names[max(map(names.index, goods)) + 1 : names.index(bad)]
        return sorted(left, key=lambda name: abs(2 * left.index(name) + 1 - len(left)))

    return _first_changed(names[0], names[-1], candidates, compare)


def _first_changed(good: str, bad: str, candidates: Candidates, compare: Compare) -> Found:
    goods, skipped, findings = [good], set[str](), compare(bad)
    if not findings.found:
        return Found("", findings, ())
    while True:
        left = [each for each in candidates(bad, goods) if each != bad]
        middle = next((each for each in left if each not in skipped), None)
        if middle is None:
            return Found(bad, findings, left)
        try:
            found = compare(middle)
        except RecordingError:
            skipped.add(middle)
            continue
        if found.found:
            bad, findings = middle, found
        else:
            goods.append(middle)


def smallest_set(names: Sequence[str], compare: Callable[[Sequence[str]], Findings]) -> Found:
    """Return names, joined by ", ", that change the graphs together, and do not if any one of them is left out.

    Each step halves the names to find the shortest beginning of the list that is enough; its last name is needed.
    k of n names take about k * log2(n) runs. A set without a recording counts as one that changes nothing, because a
    larger set may have a recording. Raises RecordingError if all names together have none.
    """
    answers: dict[Sequence[str], Findings | None] = {(): None}  # None: there is nothing to compare

    def changes(chosen: Sequence[str]) -> bool:
        if chosen not in answers:
            try:
                answers[chosen] = compare(chosen)
            except RecordingError:
                answers[chosen] = None
        findings = answers[chosen]
        return findings is not None and bool(findings.found)

    everything = answers[tuple(names)] = compare(names)
    if not everything.found:
        return Found("", everything, ())
    needed, left = tuple[str, ...](), tuple(names)
    while not changes(needed):
        low, high = 0, len(left)  # the first `low` names are too few, the first `high` are enough
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if changes(left[:middle] + needed) else (middle, high)
        needed, left = (left[low], *needed), left[:low]
    # A name may undo the change of another one, so each is left out once more.
    while fewer := next(filter(changes, combinations(needed, len(needed) - 1)), None):
        needed = fewer
    unknown = [each for each in combinations(needed, len(needed) - 1) if each and answers[each] is None]
    return Found(", ".join(needed), answers[needed] or everything, [", ".join(each) for each in unknown])
