"""What differs between two graph documents, as plain data that words are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_fxgraph.compare.changed_records import deep_diff

if TYPE_CHECKING:
    from deepdiff import DeepDiff

# From the least to the most harmful; a Difference has the class of its worst change.
CLASSES = ("cosmetic", "order", "arguments", "wiring", "operators", "signature", "state", "cost")


@dataclass(frozen=True)
class Change:
    """One thing that differs."""

    kind: str  # one of CLASSES
    action: str  # "added", "removed", "changed", "moved"
    subject: str  # what it is about: "node", "input", "output", "module", "state", "code", "note", "count"
    where: str  # the node's name (the obtained one where there is one), module path, state path, operator
    field: str = ""  # "target", "args[1]", "kwargs['dim']", "config.stride", "value", ...; empty for added and removed
    expected: str = ""
    obtained: str = ""
    scope: str | None = None  # module path in which the node lives
    source: str | None = None  # line of the model's source, for nodes of the obtained graph
    operator: str = ""  # what an added or removed node computes: its target, or the class of the module it calls
    expected_node: str = ""  # the expected node's name, where it is not the obtained one's
    node: str = ""  # the node that calls the module or reads the state, where `where` is a path
    remark: str = ""  # by how much numbers differ, and what accepts that, where rounding explains it


@dataclass(frozen=True)
class Difference:
    """The outcome of comparing an obtained document with an expected one at a level."""

    level: str
    changes: tuple[Change, ...] = ()
    renamed: int = 0  # nodes that differ by name alone
    truncated: bool = False  # more differs than is listed
    omitted: int = 0  # how many differing things are not listed, at least
    followed: int = 0  # values of nodes that differ only because of something that is listed
    # What differs as records of texts, the obtained ones aligned with the expected: see `ChangedRecords`.
    records: tuple[Mapping[str, Any], Mapping[str, Any]] = field(default=({}, {}), repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Tell whether the two documents match at the level."""
        return not self.changes

    @property
    def kind(self) -> str:
        """Name the class of the worst change; "cosmetic" when nothing differs."""
        return max((change.kind for change in self.changes), key=CLASSES.index, default="cosmetic")

    @property
    def deepdiff(self) -> DeepDiff:
        """Compare the records that differ by deepdiff, and return its `DeepDiff`; made anew each time it is asked for.

        Paths look like `root['nodes']['relu_1']['kwargs']['dim']`. A graph has at most 200 nodes that changed and 2,000
        that came or went in it, 2,600 modules and as many tensors; equal ones, names and order are not in it.
        """
        return deep_diff(*self.records)
