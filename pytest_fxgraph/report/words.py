"""A difference in words: a few lines for the assertion, everything for the report section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_fxgraph.compare.difference import CLASSES, Change, Difference
from pytest_fxgraph.document.graph_document import GraphDocument
from pytest_fxgraph.report.change_words import change_words, clipped, place_words
from pytest_fxgraph.report.document_lines import document_lines
from pytest_fxgraph.report.folding import FoldedChange, folded, folded_blocks
from pytest_fxgraph.report.headline import headline, leading_changes
from pytest_fxgraph.report.place_ranges import place_ranges
from pytest_fxgraph.report.printable import printable
from pytest_fxgraph.report.surroundings import surroundings

__all__ = ["full_section", "graph_section", "headline", "short_lines"]

MOST_LINES = 200
_MOST_PER_CLASS = 40
_MOST_SURROUNDINGS = 3
_MOST_LOOKED_AT = 20  # each is searched for in the whole graph


def short_lines(difference: Difference, *, golden: str = "", command: str = "") -> list[str]:
    """Word a difference in at most six lines: the headline, the first difference, how to accept.

    Without `golden` two graphs were compared, and without `command` nothing can be accepted.
    """
    lines = [f"{f'{golden} does not match' if golden else 'the graphs differ'}: {headline(difference)}"]
    for change in leading_changes(difference)[:1]:
        first, place = change_words(change), place_words(change)
        lines.extend([f"  first: {first}"] if not headline(difference).startswith(first) else [])
        lines.extend([f"  {clipped(place)}"] if place else [])
    more = _counted_by_class(difference)
    lines.extend([f"  in all: {more}"] if more else [])
    lines.append(
        f"  compared at level {difference.level}{'; if the new graph is right, accept it with' * bool(command)}"
    )
    lines.extend([f"    {command}"] if command else [])
    return [printable(line) for line in lines]


def full_section(
    difference: Difference, expected: GraphDocument, obtained: GraphDocument, *, golden: str, command: str = ""
) -> str:
    """Word a difference in full: every change by class, the most harmful first, with the nodes around the cause."""
    body: list[str] = []
    for kind in reversed(CLASSES):
        body.extend(_class_lines(kind, [change for change in difference.changes if change.kind == kind]))
    body.extend(_remarks(difference))
    around = _surroundings_lines(difference, expected, obtained)
    head = [f"{golden} does not match at level {difference.level}", headline(difference)]
    tail = [*around, *(["", f"accept the new graph with: {command}"] if command else [])]
    room = MOST_LINES - len(head) - len(tail)
    if len(body) > room:
        body = [*body[: room - 1], f"... and {len(body) - room + 1} more lines"]
    return printable("\n".join([*head, *body, *tail]))


def graph_section(document: GraphDocument, *, golden: str) -> str:
    """Show a graph that nobody has looked at yet, as far as there is room."""
    lines = list(document_lines(document))
    room = MOST_LINES - 2
    if len(lines) > room:
        left_out = len(lines) - room + 1
        lines = [*lines[: room - 1], f"... and {left_out} more lines; all of them: fxgraph show, once it is written"]
    return printable("\n".join([f"{golden} would be", *lines]))


def _class_lines(kind: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    lines = ["", f"{kind} ({len(changes)})"]
    left = _MOST_PER_CLASS
    found = folded_blocks(changes)
    for block in found:
        if block.blocks:
            lines.append(f"  block x{len(block.blocks)}: {place_ranges(block.blocks)}")
        indent = "    " if block.blocks else "  "
        for group in block.changes[:left]:
            lines.extend(f"{indent}{line}" for line in _change_lines(group, is_in_block=bool(block.blocks)))
        left -= len(block.changes)
        if left < 0:
            break
    if left < 0:
        lines.append(f"  and {sum(len(block.changes) for block in found) - _MOST_PER_CLASS} more")
    return lines


def _change_lines(group: FoldedChange, *, is_in_block: bool) -> list[str]:
    remarks = [place_words(group.change), "" if is_in_block else group.other_places()]
    return [change_words(group.change), *(f"    {clipped(remark)}" for remark in remarks if remark)]


def _remarks(difference: Difference) -> list[str]:
    remarks = []
    if difference.omitted:
        remarks.append(f"at least {difference.omitted} more differences are not listed")
    if difference.followed:
        remarks.append(f"values of {_nodes(difference.followed)} differ because of these")
    if difference.renamed and difference.level != "exact":
        remarks.append(f"{_nodes(difference.renamed)} renamed, which is no difference at this level")
    return ["", *remarks] if remarks else []


def _surroundings_lines(difference: Difference, expected: GraphDocument, obtained: GraphDocument) -> list[str]:
    lines: list[str] = []
    leading = leading_changes(difference)
    shown = 0
    for change in (group.change for group in folded(leading)[:_MOST_LOOKED_AT]):
        around = surroundings(change, expected, obtained, leading)
        # A neighbour of what was shown before was marked there.
        if not {f"  {line}" for line in around if line[0] != " "} <= set(lines):
            lines.extend(["", f"around {clipped(change.where)}", *(f"  {line}" for line in around)])
            shown += 1
        if shown == _MOST_SURROUNDINGS:
            break
    return lines


def _counted_by_class(difference: Difference) -> str:
    """Count changes by class, if there is more to say than the first difference."""
    counts = Counter(change.kind for change in difference.changes)
    if len(difference.changes) + difference.omitted < 2:
        return ""
    words = [f"{counts[kind]} {kind}" for kind in reversed(CLASSES) if counts[kind]]
    return ", ".join(words) + (f", and {difference.omitted} not listed" if difference.omitted else "")


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count > 1 else ''}"
