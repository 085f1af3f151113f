"""Clusters: the goldens that one cause changes, so that people review the cause once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Change, Difference
from pytest_fxgraph.document.capture_notes import NOUNS
from pytest_fxgraph.document.literals import without_references
from pytest_fxgraph.grouping import grouped

_DIGITS = 6


class Cluster(NamedTuple):
    """Goldens that differ from their received files in the same way."""

    key: str  # a few hex digits, the same for the same difference in every run
    headline: str  # of the first golden
    goldens: tuple[str, ...]
    commands: tuple[tuple[str, str], ...] = ()  # each command that accepts goldens of it, with the words for them


class Cause(NamedTuple):
    """Why one golden differs, without the places in the graph."""

    golden: str
    headline: str
    parts: tuple[object, ...] = ()
    cluster: str = ""  # the key that the test has stored; without it, the key follows from `parts`

    @property
    def key(self) -> str:
        """The key of the cluster."""
        return self.cluster or key_of(self.parts)


def clustered(causes: Iterable[Cause]) -> list[Cluster]:
    """Group goldens by cause, the cause of most goldens first."""
    groups = grouped(causes, lambda cause: cause.key)
    clusters = [
        Cluster(key, group[0].headline, tuple(cause.golden for cause in group)) for key, group in groups.items()
    ]
    return sorted(clusters, key=lambda cluster: (-len(cluster.goldens), cluster.goldens))


def chosen_cluster(clusters: Sequence[Cluster], choice: str) -> Cluster | None:
    """Return the cluster of a key, else of a number in the list, counted from 1; None for any other choice."""
    for cluster in clusters:
        if cluster.key == choice.lower():
            return cluster
    place = int(choice) if choice.isascii() and choice.isdigit() and len(choice) < _DIGITS else 0
    return clusters[place - 1] if 0 < place <= len(clusters) else None


def cause_parts(difference: Difference, golden: str) -> tuple[object, ...]:
    """Return the parts that two differences of one cause share: the keys of the edits and the texts of other changes.

    A difference with left-out changes outside of its edits is equal to no other, because these changes are not known.
    """
    if difference.omitted > difference.omitted_in_edits:
        return ("not listed in full", golden)
    edits = {("edit", *(edit.key or (edit.kind, edit.text))) for edit in difference.edits}
    return (*sorted(edits), *sorted({_part(change) for change in difference.rest}))


def cluster_key(difference: Difference, golden: str) -> str:
    """Return the key of the cluster that a golden with this difference belongs to."""
    return key_of(cause_parts(difference, golden))


def _part(change: Change) -> tuple[str, ...]:
    texts = (without_references(change.expected), without_references(change.obtained))
    # A name that a user gave is the change itself; one that tracing gave says where it is.
    where = change.where if change.subject in ("input", "note", *NOUNS) else ""
    return (change.kind, change.action, change.subject, change.field, change.operator, where, *texts)


def key_of(parts: tuple[object, ...]) -> str:
    """Return the key of a cluster: equal parts have equal keys, in every run."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
