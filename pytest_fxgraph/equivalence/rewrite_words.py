"""What a pattern was found at, and why not elsewhere, in words for whoever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import fxcore
from fxcore.internal_match import InternalMatch
from fxcore.match_explanation import MatchExplanation, NearPlace
from fxcore.match_obstacle import Obstacle, call_words
from pytest_fxgraph.document.origins import Origins

_REASONS = 3
_NAMED = 5
_LINE = 240


@dataclass(frozen=True)
class RewriteWords:
    """The words for one rewrite."""

    explanation: MatchExplanation
    taken: Sequence[InternalMatch]  # matches that were wanted
    refused: Sequence[InternalMatch]  # matches that a filter of the user's did not want
    replaced: int

    def text(self) -> str:
        """Give all of it, a line a fact; never more than some twenty lines."""
        lines = [self._headline(), *self._absent_lines(), *self._refused_lines()]
        for place in self.explanation.near:
            lines += self._lines_of(place)
        if not (self.replaced or self.refused or self.explanation.near):
            lines.append("  no place of the graph has any operation of the pattern")
        return "\n".join(line if len(line) <= _LINE else f"{line[: _LINE - 3]}..." for line in lines)

    def _headline(self) -> str:
        if not self.replaced:
            return "the pattern did not match" + ("; the nearest places:" if self.explanation.near else "")
        places = [self._place(match.nodes_map[match.anchors[0]]) for match in self.taken]
        found = "; ".join(places[:_NAMED]) + (f" and {len(places) - _NAMED} more" if len(places) > _NAMED else "")
        near = "; the nearest places that did not:" if self.explanation.near else ""
        return f"the pattern matched {_times(self.replaced)}: {found}{near}"

    def _absent_lines(self) -> list[str]:
        names = list(dict.fromkeys(call_words(node) for node in self.explanation.absent))
        return [f"  the graph has nowhere {_listed(names)}"] if names else []

    def _refused_lines(self) -> list[str]:
        places = [self._place(match.nodes_map[match.anchors[0]]) for match in self.refused]
        return [f"  match_filters refused {_listed(places)}"] if places else []

    def _lines_of(self, place: NearPlace) -> list[str]:
        head = f"  at {self._place(place.node)}: {place.agreed} of {place.total} operations are there, but"
        reasons = [f"    {self._reason(obstacle, place.node)}" for obstacle in place.obstacles[:_REASONS]]
        more = len(place.obstacles) - _REASONS
        return [head, *reasons, *([f"    and {more} more reasons"] if more > 0 else [])]

    def _reason(self, obstacle: Obstacle, anchor: fxcore.Node) -> str:
        node = obstacle.obtained
        where = f"{self._place(node)}: " if node is not None and node is not anchor else ""
        return where + obstacle.words

    def _place(self, node: object) -> str:
        if not isinstance(node, fxcore.Node):
            return repr(node)
        source = Origins(sources=True).source(node)
        return f"{node.name} ({source})" if source else node.name


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
