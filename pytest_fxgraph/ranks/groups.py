"""Groups of ranks that run one graph, up to constants that depend on the rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_fxgraph.compare.structural_hash import structural_hash
from pytest_fxgraph.document.model import GraphDocument, NodeRecord
from pytest_fxgraph.ranks.rank_program import RankProgram
from pytest_fxgraph.ranks.spans import ranks_text

_NUMBER = re.compile(r"(?<![\w.%\"'])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_MASK = "<constant of the rank>"


@dataclass(frozen=True)
class RankConstant:
    """A number in the graph that depends on the rank: the node, the place among its arguments, and the numbers."""

    node: str
    place: str
    values: tuple[str, ...]  # in the order of the group's ranks

    @property
    def text(self) -> str:
        """Return the golden's text: `%lt argument 1 is 0, 3, 6, 9`."""
        return f"%{self.node} {self.place} is {', '.join(self.values)}"


@dataclass(frozen=True)
class RankGroup:
    """Ranks with one graph. `constants` are the numbers in which their graphs differ."""

    ranks: tuple[int, ...]
    constants: tuple[RankConstant, ...] = ()

    @property
    def text(self) -> str:
        """Return the ranks in short: `0-3, 6`."""
        return ranks_text(self.ranks)


def groups_of_equal_ranks(programs: Sequence[RankProgram]) -> list[RankGroup]:
    """Return the ranks of equal graphs together, each group at the place of its first rank."""
    together: dict[str, list[RankProgram]] = {}
    for program in programs:
        together.setdefault(structural_hash(_masked(program.document)), []).append(program)
    return [
        RankGroup(tuple([program.rank for program in group]), _constants([program.document for program in group]))
        for group in together.values()
    ]


def _masked(document: GraphDocument) -> GraphDocument:
    """Return a document without the numbers among arguments. Shapes of values stay."""
    nodes = [
        node._replace(args=tuple(map(_without_numbers, node.args)), kwargs=_masked_kwargs(node))
        for node in document.nodes
    ]
    modules = [
        module if module.graph is None else module._replace(graph=_masked(module.graph)) for module in document.modules
    ]
    return replace(document, nodes=tuple(nodes), modules=tuple(modules))


def _masked_kwargs(node: NodeRecord) -> tuple[tuple[str, str], ...]:
    return tuple([(key, _without_numbers(text)) for key, text in node.kwargs])


def _without_numbers(text: str) -> str:
    return _NUMBER.sub(_MASK, text) if '"' not in text and "'" not in text else text


def _constants(documents: Sequence[GraphDocument]) -> tuple[RankConstant, ...]:
    found = []
    for records in zip(*(document.nodes for document in documents), strict=True):
        first = records[0]
        for place in range(len(first.args)):
            values = tuple([record.args[place] for record in records])
            if len(set(values)) > 1:
                found.append(RankConstant(first.name, f"argument {place}", values))
        for number, (key, _) in enumerate(first.kwargs):
            values = tuple([record.kwargs[number][1] for record in records])
            if len(set(values)) > 1:
                found.append(RankConstant(first.name, f"argument {key}", values))
    for modules in zip(*(document.modules for document in documents), strict=True):
        inner = [module.graph for module in modules if module.graph is not None]
        found += _constants(inner) if inner else ()
    return tuple(found)
