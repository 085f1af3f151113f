"""The difference between two graph documents as plain data; reports put it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_fxgraph.compare.changed_records import deep_diff

if TYPE_CHECKING:
    from deepdiff import DeepDiff

    from pytest_fxgraph.compare.isomorphism import Alignment

# From the least to the most harmful; a Difference has the class of its worst change.
CLASSES = ("cosmetic", "order", "arguments", "wiring", "operators", "signature", "state", "cost")


@dataclass(frozen=True)
class Change:
    """One difference."""

    kind: str  # one of CLASSES
    action: str  # "added", "removed", "changed", "moved"
    subject: str  # its subject: "node", "input", "output", "module", "state", "code", "note", "count"
    where: str  # the node's name (the obtained name, if the node is there), module path, state path, operator
    field: str = ""  # "target", "args[1]", "kwargs['dim']", "config.stride", "value", ...; empty for added and removed
    expected: str = ""
    obtained: str = ""
    scope: str | None = None  # path of the module around the node
    source: str | None = None  # line of the model's source, for nodes of the obtained graph
    operator: str = ""  # of an added or removed node: its target, or the class of the module that it calls
    expected_node: str = ""  # the expected node's name, if it differs from the obtained name
    node: str = ""  # the node that calls the module or reads the state, if `where` is a path
    remark: str = ""  # the distance of numbers that differ by rounding, and the option that accepts it


class Site(NamedTuple):
    """One place of an edit."""

    where: (
        str  # path of the module around the nodes, path of the changed module or state, or file:line; "" for the root
    )
    expected: tuple[str, ...] = ()  # names of the expected graph's nodes that the edit removes or changes
    obtained: tuple[str, ...] = ()  # names of the obtained graph's nodes that the edit adds or changes


@dataclass(frozen=True)
class Edit:
    """One edit as a person sees it, at all its places; it explains its changes."""

    kind: str  # "block", "replaced", "inserted", "moved", "renamed", ...: the recogniser that found it
    text: str  # in words, without the places: "F.gelu -> nn.GELU"
    sites: tuple[Site, ...]  # in the order of the graph; all sites have equal texts
    changes: tuple[Change, ...]  # the changes of the difference that the edit explains
    key: tuple[str, ...] = ()  # the same for the same edit in a model of another depth, width or batch


@dataclass(frozen=True)
class Difference:
    """The outcome of comparing an obtained document with an expected one at a level."""

    level: str
    changes: tuple[Change, ...] = ()
    renamed: int = 0  # nodes that differ by name alone
    truncated: bool = False  # whether changes were left out
    omitted: int = 0  # number of changes that were left out, at least
    omitted_in_edits: int = 0  # number of left-out changes that are at places of the edits
    followed: int = 0  # values of nodes that differ only because of a listed change
    edits: tuple[Edit, ...] = ()  # the most telling first; a change belongs to one edit at most
    # The differing records as texts, obtained records aligned with expected records: see `ChangedRecords`.
    records: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}), repr=False, compare=False)
    # The compared documents and their pairs of nodes; None without pairs, or with other spelling.
    alignment: Alignment | None = field(default=None, repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether the two documents match at the level."""
        return not self.changes

    @property
    def rest(self) -> tuple[Change, ...]:
        """The changes that no edit explains, in order."""
        explained = {id(change) for edit in self.edits for change in edit.changes}
        return tuple(change for change in self.changes if id(change) not in explained)

    @property
    def unexplained(self) -> int:
        """The number of changes that no edit explains, listed or left out."""
        return len(self.rest) + self.omitted - self.omitted_in_edits

    @property
    def kind(self) -> str:
        """The class of the worst change; "cosmetic" for a match."""
        return max((change.kind for change in self.changes), key=CLASSES.index, default="cosmetic")

    @property
    def deepdiff(self) -> DeepDiff:
        """deepdiff's `DeepDiff` of the differing records; each access computes it again.

        Paths look like `root['nodes']['relu_1']['kwargs']['dim']`. Each graph contributes at most 200 changed nodes,
        2,000 added or removed nodes, 2,600 modules and 2,600 tensors. Equal records, names and order are left out.
        """
        return deep_diff(*self.records)
