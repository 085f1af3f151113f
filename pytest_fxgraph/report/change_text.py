"""One change in words."""

from __future__ import annotations

import re
from collections import Counter

from pytest_fxgraph.compare.difference import Change

# Longer texts are cut in the middle: what matters in an argument list is at its ends more often than not.
LONGEST_TEXT = 160
LONGEST_NAME = 80

_SUBJECT_WORDS = {"node": "", "module": "", "state": "", "code": "generated code, ", "note": "", "count": ""}


def describe_subject(change: Change) -> str:
    """Name what a change is about: `relu_1`, `input x`, `the output`, `features.conv1`."""
    if change.subject == "output":
        return "the output" if "/" not in change.where else f"the output of {change.where.rpartition('/')[0]}"
    if change.subject == "input":
        return f"input {change.where}"
    return _SUBJECT_WORDS.get(change.subject, "") + clipped(change.where, LONGEST_NAME)


def describe_change(change: Change) -> str:
    """Say what changed, from what to what."""
    about = describe_subject(change)
    if change.action == "added":
        return f"{about} added{_given(': ', change.obtained)}"
    if change.action == "removed":
        return f"{about} removed{_given(': ', change.expected)}"
    if change.action == "moved":
        return f"{about} moved: {clipped(change.expected)} -> {clipped(change.obtained)}"
    if change.subject == "input" and change.field == "target":
        return f"input {change.expected} is now {change.obtained}"
    field = describe_field(change)
    return f"{about}: {field}{' ' if field else ''}{transition(change)}"


def describe_field(change: Change) -> str:
    """Name the field of a change as a reader knows it: `stride`, `dim`, `args[1]`."""
    if change.field in ("target", "count") or (change.field == "value" and change.subject != "node"):
        return ""
    if change.field == "args[0]" and change.subject == "output":
        return "returns"
    keyword = re.fullmatch(r"kwargs\['(\w+)'\]", change.field)
    if keyword is not None:
        return keyword[1]
    return {"same_as": "shared with", "content": "values"}.get(change.field, change.field.removeprefix("config."))


def transition(change: Change) -> str:
    """Write from what to what."""
    return f"{clipped(change.expected) or 'nothing'} -> {clipped(change.obtained) or 'nothing'}"


def describe_place(change: Change) -> str:
    """Say where in the model a change is: module and line of source, as far as they are known."""
    words = [f"in {change.scope}"] if change.scope and change.scope != change.where else []
    if change.node and change.node != change.where:
        words.append(f"node {change.node}")
    if change.source:
        words.append(change.source)
    return "; ".join(words)


def clipped(text: str, longest: int = LONGEST_TEXT) -> str:
    """Cut a long text in the middle, and put it on one line."""
    text = text.replace("\n", " ")
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 5]} ... {text[-tail:]}"


def operator_balance(changes: list[Change]) -> Counter[str]:
    """Count operators that came and went over all changes of operators."""
    balance: Counter[str] = Counter()
    for change in changes:
        if change.action == "added":
            balance[f"+ {change.operator or change.obtained}"] += 1
        elif change.action == "removed":
            balance[f"- {change.operator or change.expected}"] += 1
        else:
            balance[f"+ {change.obtained}"] += 1
            balance[f"- {change.expected}"] += 1
    return balance


def _given(before: str, text: str) -> str:
    return before + clipped(text) if text else ""
