"""Which modules or tensors are one object under several paths."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_fxgraph.document.graph_document import ModuleRecord, StateRecord


def shared_paths(records: Sequence[ModuleRecord | StateRecord]) -> dict[str, str]:
    """Map each path of a shared object to the first of its paths in alphabetical order.

    A record names the path that was met first, which depends on the order of the nodes; this does not.
    """
    groups: dict[str, set[str]] = {}
    for record in records:
        if record.same_as is not None:
            groups.setdefault(record.same_as, {record.same_as}).add(record.path)
    return {path: min(group) for group in groups.values() for path in group}
