"""A remark for differences that another release of torch may have made: torch chooses the operators of a capture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pytest_fxgraph.compare.difference import Change, Difference

_CHOSEN_BY_TORCH = re.compile(r"(?:torch\.ops\.)?(?:aten|prims)\.")
_MOST_LINES = 6  # of an assertion


def other_torch_remark(difference: Difference, torch_version: str) -> str | None:
    """Return the next step if torch alone changed. Return None unless torch chose all operators that differ."""
    named = [name for change in difference.changes for name in _operators(change)]
    if difference.kind != "operators" or not named or not all(map(_CHOSEN_BY_TORCH.match, named)):
        return None
    minor = ".".join(torch_version.split(".")[:2])
    return (
        f"if the model is the same, torch {minor} exports this operator otherwise: record a variant with "
        "--fx-update-golden --fx-update-variant"
    )


def _operators(change: Change) -> Iterable[str]:
    if change.kind != "operators":
        return ()
    if change.field == "target":
        return change.expected, change.obtained
    return (change.operator or change.where,)


def with_remark(lines: Sequence[str], remark: str | None) -> list[str]:
    """Add a remark to the short lines of a difference, before the command that accepts, within six lines."""
    if remark is None:
        return [*lines]
    place = next((number for number, line in enumerate(lines) if line.startswith("  compared at level")), len(lines))
    made = [*lines[:place], f"  {remark}", *lines[place:]]
    return made if len(made) <= _MOST_LINES else [line for line in made if not line.startswith("  in all: ")]
