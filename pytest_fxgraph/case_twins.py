"""Tests whose ids differ only in case: on many file systems their goldens would be one file."""

from __future__ import annotations

from collections import Counter

import pytest

HAS_CASE_TWIN = pytest.StashKey[bool]()


def mark_case_twins(report: pytest.CollectReport) -> None:
    """Mark what one collector found whose names differ only in case.

    Asked of everything that a file or class holds, before any selection: whether a test runs alone or with its
    siblings must not change where its golden lies.
    """
    found = report.result or ()
    names = {node.name for node in found}
    folded = Counter(name.casefold() for name in names)
    if len(folded) == len(names):
        return
    for node in found:
        if folded[node.name.casefold()] > 1:
            node.stash[HAS_CASE_TWIN] = True


def has_case_twin(item: pytest.Item) -> bool:
    """Tell whether another test's id differs from this one's only in case."""
    return any(HAS_CASE_TWIN in node.stash for node in item.listchain())
