"""The differences of a golden as data for other programs: the JSON report has them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pytest_fxgraph.compare.difference import Change, Difference, Edit
from pytest_fxgraph.report.edit_text import describe_edit

_SOURCE = re.compile(r"(?P<file>.+):(?P<line>\d+): (?P<text>.*)\Z", re.DOTALL)


def change_data(difference: Difference, cluster: str) -> tuple[dict[str, Any], ...]:
    """Return each listed difference as values that JSON can hold, the first being the one that explains the others."""
    return tuple([_data_of(change, cluster) for change in difference.changes])


def edit_data(difference: Difference) -> tuple[dict[str, Any], ...]:
    """Return each edit as values that JSON can hold, the most telling first.

    "changes" are positions in the list that `change_data` returns.
    """
    positions = {id(change): position for position, change in enumerate(difference.changes)}
    return tuple([_data_of_edit(edit, [positions[id(change)] for change in edit.changes]) for edit in difference.edits])


def _data_of_edit(edit: Edit, changes: Sequence[int]) -> dict[str, Any]:
    places = [{"where": site.where, "expected": [*site.expected], "obtained": [*site.obtained]} for site in edit.sites]
    told = {"kind": edit.kind, "text": edit.text, "title": describe_edit(edit)}
    return {**told, "places": places, "changes": [*changes]}


def _data_of(change: Change, cluster: str) -> dict[str, Any]:
    source = _SOURCE.match(change.source or "")
    return {
        "class": change.kind,
        "action": change.action,
        "subject": change.subject,
        "node": change.node or change.where,
        "expected_node": change.expected_node or None,
        "path": change.where if change.node else None,
        "field": change.field or None,
        "from": change.expected or None,
        "to": change.obtained or None,
        "operator": change.operator or None,
        "module": change.scope,
        "file": source["file"] if source else None,
        "line": int(source["line"]) if source else None,
        "text": source["text"] if source else None,
        "remark": change.remark or None,
        "cluster": cluster,
    }
