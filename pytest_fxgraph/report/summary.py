"""The results of a run's goldens, counted in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_fxgraph.report.outcome import Outcome

# Result of a golden to its words after a number, in the order of the summary.
COUNTED = {
    "matched": "matched",
    "written": "written",
    "mismatch": "differs",
    "missing": "missing",
    "error": "unreadable",
    "refused": "not written",
}


def counted_goldens(results: Iterable[str], unused: int = 0) -> str:
    """Count results, keys of COUNTED: "3 goldens matched, 1 written". Return "" without results."""
    counts = Counter(results)
    parts = [(counts[result], words) for result, words in COUNTED.items() if counts[result]]
    parts += [(unused, "unused")] if unused else []
    if not parts:
        return ""
    counted = [f"{count} {'differ' if words == 'differs' and count > 1 else words}" for count, words in parts]
    number, _, rest = counted[0].partition(" ")
    return ", ".join([f"{number} golden{'' if number == '1' else 's'} {rest}", *counted[1:]])


def results_of(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], str]:
    """Map test and golden to the result. Of two comparisons of one golden, a result other than a match counts."""
    results: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        result = "written" if outcome.status == "updated" else outcome.status
        key = (outcome.nodeid, outcome.golden)
        if result != "matched" or key not in results:
            results[key] = result
    return results
