"""The present names of values that a trace named: a transform may replace a node, and readers then read another one."""

from __future__ import annotations

from collections.abc import Mapping


class MovedValues:
    """For each value that moved, its name in the trace and the name of the node that readers read now."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        """`names` maps names in the trace to present names."""
        self.names = dict(names or {})
        self._traced: dict[str, list[str]] = {}  # by present name
        for traced, present in self.names.items():
            self._traced.setdefault(present, []).append(traced)

    def move(self, name: str, new_name: str) -> None:
        """Record that readers of the node `name` read the node `new_name` from now on."""
        moved = self._named(name)
        self._traced[new_name] = [*self._named(new_name), *moved] if name != new_name else moved
        self._traced[name] = [] if name != new_name else moved
        self.names.update(dict.fromkeys(moved, new_name))

    def _named(self, present: str) -> list[str]:
        """Return the names in the trace of the values that a node has now."""
        known = self._traced.get(present)
        return ([] if present in self.names else [present]) if known is None else known

    def present(self, name: str) -> str:
        """Return the present name of a value of the trace."""
        return self.names.get(name, name)

    def renamed(self, names: Mapping[str, str]) -> MovedValues:
        """Return the moves for a copy of the graph. `names` maps names of nodes to names in the copy."""
        pairs = [(traced, new) for present, new in names.items() for traced in self._named(present) if traced != new]
        return MovedValues(dict(pairs))
