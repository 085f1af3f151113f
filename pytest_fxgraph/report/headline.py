"""The one line that says what differs."""

from __future__ import annotations

from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.report.change_words import LONGEST_NAME, change_words, clipped, operator_balance
from pytest_fxgraph.report.folding import folded

_MOST_OPERATORS = 4


def headline(difference: Difference) -> str:
    """Say in one line what differs, the cause before what follows from it."""
    leading = leading_changes(difference)
    if not leading:
        return "no difference"
    words, said = _words_for(leading)
    more = len(difference.changes) + difference.omitted - said
    return f"{words}, and {more} more" if more > 0 else words


def leading_changes(difference: Difference) -> list[Change]:
    """Give the changes that are most likely the cause of the others: all of one sort, in order."""
    ranks = [_rank(change) for change in difference.changes]
    first = min(ranks, default=0)
    return [change for change, rank in zip(difference.changes, ranks, strict=True) if rank == first]


def _rank(change: Change) -> int:
    """Sort changes by how likely they are the cause; a value that differs hardly ever is."""
    if change.field == "value" and change.subject in ("node", "input", "output"):
        return 7 if change.subject != "input" else 6
    if change.kind == "signature":
        return 0 if change.subject != "note" else 6
    return {"operators": 1, "arguments": 2, "wiring": 3, "state": 4, "order": 5, "cosmetic": 8}.get(change.kind, 6)


def _words_for(leading: list[Change]) -> tuple[str, int]:
    """Word changes of one sort; say also how many of them the words cover."""
    if leading[0].kind == "operators" and leading[0].subject == "count":
        shown = leading[:_MOST_OPERATORS]
        return ", ".join(map(change_words, shown)), len(shown)
    if leading[0].kind == "operators" and all(_is_presence(change) for change in leading):
        return _operators_words(leading)
    if leading[0].field == "name":
        names = sum(change.field == "name" for change in leading)
        return f"{names} node{'s' if names > 1 else ''} renamed", names
    alike = len(folded(leading)[0].others)
    words = change_words(leading[0])
    return (f"{words} (and at {alike} more place{'s' if alike > 1 else ''})" if alike else words), 1 + alike


def _is_presence(change: Change) -> bool:
    return change.action in ("added", "removed") or change.field in ("target", "kind")


def _operators_words(leading: list[Change]) -> tuple[str, int]:
    """Count what came and what went; a single exchange is worded as one."""
    if len(leading) == 1 and leading[0].action == "changed":
        return change_words(leading[0]), 1
    balance = sorted(operator_balance(leading).items(), key=lambda item: (item[0][0] != "+", -item[1], item[0]))
    words = [
        f"{sign_and_name[0]}{count} {clipped(sign_and_name[2:], LONGEST_NAME)}" for sign_and_name, count in balance
    ]
    if len(words) > _MOST_OPERATORS:
        words = [*words[: _MOST_OPERATORS - 1], f"{len(words) - _MOST_OPERATORS + 1} other operators"]
    return ", ".join(words), len(leading)
