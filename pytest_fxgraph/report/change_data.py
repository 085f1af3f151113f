"""The differences of a golden as data for other programs: the JSON report has them."""

from __future__ import annotations

import re
from typing import Any

from pytest_fxgraph.compare.difference import Change, Difference

_SOURCE = re.compile(r"(?P<file>.+):(?P<line>\d+): (?P<text>.*)\Z", re.DOTALL)


def change_data(difference: Difference, cluster: str) -> tuple[dict[str, Any], ...]:
    """Return each listed difference as values that JSON can hold, the first being the one that explains the others."""
    return tuple([_data_of(change, cluster) for change in difference.changes])


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
