"""Two aligned graphs with the changes that no edit explains yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_fxgraph.compare.difference import Change, Site
from pytest_fxgraph.compare.graph_index import owners_of
from pytest_fxgraph.compare.isomorphism import Alignment


class Occurrence(NamedTuple):
    """One edit at one place; occurrences with equal kind, text and key are one edit."""

    kind: str
    text: str
    key: tuple[str, ...]
    site: Site
    changes: Sequence[Change]


class ComparedGraph:
    """Two aligned graphs and their unexplained changes, found by node or by path.

    `prefix` is the beginning of all names in the changes: the paths of the modules around an inner graph. A long list
    of changes leaves out `omitted` nodes (pairs of positions, -1 for a missing partner) and records at `omitted_paths`.
    """

    def __init__(
        self,
        alignment: Alignment,
        prefix: str = "",
        omitted: Sequence[tuple[int, int]] = (),
        omitted_paths: Sequence[str] = (),
    ) -> None:
        self.alignment, self.prefix = alignment, prefix
        self.omitted, self.omitted_paths = omitted, omitted_paths
        self.expected, self.obtained = alignment.expected, alignment.obtained
        self._positions: list[dict[tuple[bool, str], int]] = []
        for index in (self.expected, self.obtained):
            names = {(False, node.name): position for position, node in enumerate(index.nodes)}
            inputs = {(True, node.target): n for n, node in enumerate(index.nodes) if node.op == "placeholder"}
            self._positions.append(names | inputs)
        # Also nodes that the list of changes left out.
        self.lone_expected = set(alignment.removed())
        self.lone_obtained = set(alignment.added())
        self.replaced = {
            partner: position
            for position, partner in alignment.pairs()
            if self.expected.labels[position][:2] != self.obtained.labels[partner][:2]
        }
        self.changes: Sequence[Change] = ()
        self.removed: dict[int, Change] = {}  # by position of the expected node
        self.added: dict[int, Change] = {}  # by position of the obtained node
        self.changed: dict[int, list[Change]] = {}  # of paired nodes, by position of the obtained node
        self.modules: dict[str, list[Change]] = {}
        self.state: dict[str, list[Change]] = {}
        self._below: dict[str, list[Change]] = {}

    def set_changes(self, changes: Iterable[Change]) -> None:
        """Replace the unexplained changes."""
        self.changes = [*changes]
        self.removed, self.added, self.changed, self.modules, self.state = {}, {}, {}, {}, {}
        self._below = {}
        for change in self.changes:
            where = change.where[len(self.prefix) :]
            if change.subject in ("module", "state"):
                by_path = self.modules if change.subject == "module" else self.state
                by_path.setdefault(where, []).append(change)
                for path in owners_of(where):
                    self._below.setdefault(path, []).append(change)
            elif change.subject in ("node", "input", "output"):
                self._add_of_node(change, where)

    def _add_of_node(self, change: Change, where: str) -> None:
        is_removed = change.action == "removed"
        # A change of an input names the parameter, and every other change the node.
        position = self._positions[0 if is_removed else 1].get((change.subject == "input", where))
        if position is None:
            return
        if is_removed:
            self.removed[position] = change
        elif change.action == "added":
            self.added[position] = change
        else:
            self.changed.setdefault(position, []).append(change)

    def leave_out(self, site: Site) -> None:
        """Take the nodes of a recognised edit out of the lone and the replaced nodes."""
        for name in site.expected:
            self.lone_expected.discard(self._positions[0][False, name[len(self.prefix) :]])
        for name in site.obtained:
            position = self._positions[1][False, name[len(self.prefix) :]]
            self.lone_obtained.discard(position)
            self.replaced.pop(position, None)

    def pair_changes(self) -> Iterator[tuple[int, int, list[Change]]]:
        """Yield the positions of each changed pair, and its changes."""
        for partner, changes in self.changed.items():
            position = self.alignment.expected_of[partner]
            if position >= 0:
                yield position, partner, changes

    def lone_inputs(self, expected: Iterable[int], obtained: Iterable[int]) -> Iterator[tuple[str, Change]]:
        """Yield the names of added and removed inputs that the nodes read, with their unexplained changes."""
        for index, positions, changes in (
            (self.expected, expected, self.removed),
            (self.obtained, obtained, self.added),
        ):
            read = sorted({each for position in positions for each in index.inputs[position]})
            for each in read:
                if index.nodes[each].op == "placeholder" and each in changes:
                    yield index.nodes[each].target, changes[each]

    def reads_the_same(self, position: int, partner: int) -> bool:
        """Return whether two nodes read partners at the same places."""
        read = tuple(self.alignment.obtained_of[each] for each in self.expected.inputs[position])
        return read == self.obtained.inputs[partner]

    def position(self, name: str, *, is_removed: bool = False) -> int | None:
        """Return the position of the obtained node, or of the removed node, with a name."""
        return self._positions[0 if is_removed else 1].get((False, name))

    def of_paths(self, paths: Iterable[str]) -> list[Change]:
        """List the changes of modules and state at the paths and below them."""
        found = {id(change): change for path in paths for change in self._below.get(path, ())}
        return [*found.values()]

    def site(self, where: str, expected: Iterable[int] = (), obtained: Iterable[int] = ()) -> Site:
        """Return a place by its path and the positions of its nodes."""
        return Site(
            (self.prefix + where).rstrip("/"),
            tuple(self.prefix + self.expected.nodes[position].name for position in sorted(expected)),
            tuple(self.prefix + self.obtained.nodes[position].name for position in sorted(obtained)),
        )
