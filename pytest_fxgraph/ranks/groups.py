"""Groups of ranks that run one graph, up to constants that depend on the rank."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fxcore.operators.kinds import is_packet, overloads_of
from pytest_fxgraph.compare.structural_hash import structural_hash
from pytest_fxgraph.document.model import GraphDocument, NodeRecord, StateRecord, with_inner_graphs
from pytest_fxgraph.grouping import grouped
from pytest_fxgraph.ranks.rank_program import RankProgram
from pytest_fxgraph.ranks.world import ranks_text

_NUMBER = re.compile(r"(?<![\w.%\"'])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_SLICE = re.compile(r"slice\((-?\d+|None), (-?\d+|None)(?=,)")
_MASK = "<constant of the rank>"
_CONTENTS = "contents"
_LONGEST_CONTENT = 60
_MOST_VALUES = 8
# Beginnings of the names of arguments that choose dimensions, sizes or parts.
_SHAPING = ("dim", "axis", "axes", "perm", "size", "shape", "split", "group", "kernel", "padding", "stride", "dilation")


@dataclass(frozen=True)
class RankConstant:
    """A number in the graph, or the contents of a constant, that depends on the rank."""

    node: str  # `%lt`, or `self.offset` for contents
    place: str  # "argument 1", "argument other", or "contents"
    values: tuple[str, ...]  # in the order of the group's ranks

    @property
    def text(self) -> str:
        """Return the golden's text: `%lt argument 1 is 0, 3, 6, 9`."""
        if any(len(value) > _LONGEST_CONTENT for value in self.values):
            return f"{self.node} {self.place} differ"
        return f"{self.node} {self.place} {'are' if self.place == _CONTENTS else 'is'} {_values_text(self.values)}"


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
    together = grouped(programs, lambda program: structural_hash(masked(program.document)))
    return [
        RankGroup(tuple([program.rank for program in group]), _constants([program.document for program in group]))
        for group in together.values()
    ]


def masked(document: GraphDocument) -> GraphDocument:
    """Return a document without the constants that may depend on the rank: numbers among arguments, and contents.

    Shapes of values stay, and so do booleans and arguments for a dimension or a size: these make another program.
    """
    nodes = []
    for node in document.nodes:
        args = tuple([_without_numbers(text, node, str(place)) for place, text in enumerate(node.args)])
        kwargs = tuple([(key, _without_numbers(text, node, key)) for key, text in node.kwargs])
        nodes.append(node._replace(args=args, kwargs=kwargs))
    state = [record._replace(content=_MASK) if _is_maskable(record) else record for record in document.state]
    return replace(with_inner_graphs(document, masked), nodes=tuple(nodes), state=tuple(state))


def _is_maskable(record: StateRecord) -> bool:
    return record.content is not None and record.value != "bool"


def _without_numbers(text: str, node: NodeRecord, place: str) -> str:
    if '"' in text or "'" in text or not _NUMBER.search(text):
        return text
    names = _argument_names(node.target, int(place)) if place.isdecimal() else {place}
    if any(name.startswith(_SHAPING) for name in names):
        return text
    return _NUMBER.sub(_MASK, _SLICE.sub(_slice_text, text))


def _slice_text(found: re.Match[str]) -> str:
    """Return a text without separate numbers for a slice: its length, which makes the shape, or its open bounds."""
    start, stop = found.groups()
    return f"slice_of_{start}_{stop}(" if "None" in (start, stop) else f"slice_of_length_{int(stop) - int(start)}("


@functools.lru_cache(maxsize=4096)
def _argument_names(target: str, place: int) -> frozenset[str]:
    """Return the names that an argument of an operator has: of an operator of aten for `torch.select` and `.select`."""
    parts = target.split(".")
    namespace, name = (parts[0], parts[1]) if len(parts) == 3 else ("aten", parts[-1])
    packet = getattr(getattr(torch.ops, namespace), name, None)
    overloads = overloads_of(packet) if is_packet(packet) else []
    schemas = [each._schema for each in overloads if len(parts) < 3 or each._overloadname == parts[2]]
    return frozenset([each.arguments[place].name for each in schemas if place < len(each.arguments)])


def _constants(documents: Sequence[GraphDocument]) -> tuple[RankConstant, ...]:
    found = []
    is_named_alike = len({tuple([node.name for node in document.nodes]) for document in documents}) == 1
    for records in zip(*(document.nodes for document in documents), strict=True):
        first = records[0]
        if any((each.target, len(each.args)) != (first.target, len(first.args)) for each in records):
            continue  # a rank calls independent operators in another order
        columns = [(str(place), tuple([each.args[place] for each in records])) for place in range(len(first.args))]
        columns += [(key, tuple([dict(each.kwargs).get(key, "") for each in records])) for key, _ in first.kwargs]
        found += [
            RankConstant(f"%{first.name}", f"argument {name}", values)
            for name, values in columns
            if len({*values}) > 1 and (is_named_alike or not all(text.startswith("%") for text in values))
        ]
    for states in zip(*(document.state for document in documents), strict=True):
        contents = tuple([record.content or "" for record in states])
        if len({*contents}) > 1:
            found.append(RankConstant(f"self.{states[0].path}", _CONTENTS, contents))
    for modules in zip(*(document.modules for document in documents), strict=True):
        inner = [module.graph for module in modules if module.graph is not None]
        found += _constants(inner) if inner else ()
    return tuple(found)


def _values_text(values: Sequence[str]) -> str:
    """List the values; many numbers in equal steps as the first and the last."""
    if len(values) > _MOST_VALUES and all(re.fullmatch(r"-?\d+", value) for value in values):
        numbers = [*map(int, values)]
        steps = {later - earlier for earlier, later in itertools.pairwise(numbers)}
        if len(steps) == 1:
            return f"{values[0]} to {values[-1]} by {steps.pop()}"
    return ", ".join(values)
