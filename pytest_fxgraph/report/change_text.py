"""One change as text."""

from __future__ import annotations

import re
from collections import Counter

from pytest_fxgraph.compare.difference import Change
from pytest_fxgraph.document.capture_notes import NOUNS, finding_in_words

# Longer texts are cut in the middle, because the ends of an argument list matter most.
LONGEST_TEXT = 160
LONGEST_NAME = 80

_SUBJECT_NAMES = {"node": "", "module": "", "state": "", "code": "generated code, ", "note": "", "count": ""}


def describe_subject(change: Change) -> str:
    """Return the name of a change's object: `relu_1`, `input x`, `the output`, `features.conv1`."""
    if change.subject == "output":
        return "the output" if "/" not in change.where else f"the output of {change.where.rpartition('/')[0]}"
    if change.subject == "input":
        return f"input {change.where}"
    return _SUBJECT_NAMES.get(change.subject, "") + clipped(change.where, LONGEST_NAME)


def describe_change(change: Change) -> str:
    """Return a change in one line, with the old and the new value."""
    if change.subject in NOUNS and change.action in ("added", "removed"):
        return describe_finding(change)
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
    # The size of a tensor's change tells more than thousands of digits.
    what = change.remark if change.remark and change.field == "content" else transition(change)
    remark = f" ({change.remark})" if change.remark and change.field != "content" else ""
    return f"{about}: {field}{' ' if field else ''}{what}{remark}"


def describe_finding(change: Change) -> str:
    """Return in one line the break, recompile or guard that came or went."""
    told = finding_in_words(change.subject, change.remark, is_added=change.action == "added")
    return f"{told}: {clipped(change.where)}"


def describe_field(change: Change) -> str:
    """Return the field of a change in a reader's words, or "" if it goes without saying: `stride`, `dim`, `args[1]`."""
    if change.field in ("target", "count") or (change.field == "value" and change.subject != "node"):
        return ""
    if change.field == "args[0]" and change.subject == "output":
        return "returns"
    keyword = re.fullmatch(r"kwargs\['(\w+)'\]", change.field)
    if keyword is not None:
        return keyword[1]
    return {"same_as": "shared with", "content": "values"}.get(change.field, change.field.removeprefix("config."))


def transition(change: Change) -> str:
    """Return the old and the new value of a change, both cut to LONGEST_TEXT characters."""
    return f"{clipped(change.expected) or 'nothing'} -> {clipped(change.obtained) or 'nothing'}"


def describe_place(change: Change) -> str:
    """Return the place of a change in the model: module and line of source, as far as they are known."""
    parts = [f"in {change.scope}"] if change.scope and change.scope != change.where else []
    if change.node and change.node != change.where:
        parts.append(f"node {change.node}")
    if change.source:
        parts.append(change.source)
    return "; ".join(parts)


def clipped(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text in one line, cut in the middle if it is longer than `longest` characters."""
    text = text.replace("\n", " ")
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 5]} ... {text[-tail:]}"


def operator_balance(changes: list[Change]) -> Counter[str]:
    """Count added operators under `+ name` and removed ones under `- name`, over changes of class operators."""
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
