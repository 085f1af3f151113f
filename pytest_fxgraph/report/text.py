"""A difference as text: a few lines for the assertion, everything for the report section."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_fxgraph.compare.difference import CLASSES, Change, Difference, Edit, Site
from pytest_fxgraph.document.model import GraphDocument
from pytest_fxgraph.report.change_text import LONGEST_NAME, clipped, describe_change, describe_place, operator_balance
from pytest_fxgraph.report.cost_text import cost_headline
from pytest_fxgraph.report.edit_text import describe_edit, edits_headline, place_of_edit
from pytest_fxgraph.report.folding import FoldedChange, folded, folded_blocks
from pytest_fxgraph.report.graph_diff import GraphDiff, Place, places_of
from pytest_fxgraph.report.numbered_paths import format_paths
from pytest_fxgraph.report.printable import counted, printable, printable_line

MOST_LINES = 200
_MOST_OPERATORS = 4
_MOST_PER_CLASS = 40
_MOST_HUNKS = 3
_IN_RECORDS = ("module", "state")
_MOST_SEARCHED = 20  # each search goes through the whole graph
LONGEST_HEADLINE = 119
# Limits for each text in a headline, tried in order until the headline is short enough.
_LENGTHS = (LONGEST_HEADLINE, 60, 40, 30, 20)
_MOST_SHORT_LINES = 6
# Calls that captures of torch 2.6 write and captures of torch 2.13 and later leave out, and the other way around.
# Releases between the two were not recorded. `tests/versions` holds the recordings.
_OF_OLD_TORCH = re.compile(r"aten\.slice\.Tensor\(%\w+, \d+, 0, 9223372036854775807\)")
_OF_NEW_TORCH = re.compile(r"aten\._assert_tensor_metadata\.")
_LAST_OLD, _FIRST_NEW = (2, 6), (2, 13)
_DIGEST = re.compile(r"\bsha256[=:][0-9a-f]+,? ?")


def headline(difference: Difference) -> str:
    """Return a difference in one line of at most LONGEST_HEADLINE characters, the cause before its consequences."""
    if difference.edits:
        return edits_headline(difference, LONGEST_HEADLINE)
    leading = leading_changes(difference)
    if not leading:
        return "no difference"
    if leading[0].kind == "cost":
        return clipped(cost_headline(leading), LONGEST_HEADLINE)
    line = ""
    for longest in _LENGTHS:
        text, described = _describe_leading([_without_digests(change, longest) for change in leading])
        more = len(difference.changes) + difference.omitted - described
        line = f"{text}, and {more} more" if more > 0 else text
        if len(line) <= LONGEST_HEADLINE:
            return line
    return clipped(line, LONGEST_HEADLINE)


def _without_digests(change: Change, longest: int) -> Change:
    """Return a change without digests, with texts of at most `longest` characters."""
    expected, obtained = (clipped(_DIGEST.sub("", text), longest) for text in (change.expected, change.obtained))
    if expected == obtained and _DIGEST.search(change.obtained):
        obtained = "other values"
    return replace(change, expected=expected, obtained=obtained, where=clipped(change.where, max(longest, 30)))


def leading_changes(difference: Difference) -> list[Change]:
    """Return the most likely causes of the other changes: changes of one sort, in order."""
    ranks = [_rank(change) for change in difference.changes]
    first = min(ranks, default=0)
    return [change for change, rank in zip(difference.changes, ranks, strict=True) if rank == first]


def _rank(change: Change) -> int:
    """Return the rank of a change as a cause, 0 for the likeliest. A different value is rarely a cause."""
    if change.field == "value" and change.subject in ("node", "input", "output"):
        return 7 if change.subject != "input" else 6
    if change.kind == "cost":
        return 6 if change.subject == "cost" else 8
    if change.kind == "signature":
        return 0 if change.subject != "note" else 6
    return {"operators": 1, "arguments": 2, "wiring": 3, "state": 4, "order": 5, "cosmetic": 8}.get(change.kind, 6)


def _describe_leading(leading: list[Change]) -> tuple[str, int]:
    """Describe changes of one sort. Return also the number of changes that the text covers."""
    if leading[0].kind == "operators" and leading[0].subject == "count":
        shown = leading[:_MOST_OPERATORS]
        return ", ".join(map(describe_change, shown)), len(shown)
    if leading[0].kind == "operators" and all(_is_presence(change) for change in leading):
        return _describe_operators(leading)
    if leading[0].field == "name":
        names = sum(change.field == "name" for change in leading)
        return f"{counted(names, 'node')} renamed", names
    alike = len(folded(leading)[0].others)
    text = describe_change(leading[0])
    return (f"{text} (and at {counted(alike, 'more place')})" if alike else text), 1 + alike


def _is_presence(change: Change) -> bool:
    return change.action in ("added", "removed") or change.field in ("target", "kind")


def _describe_operators(leading: list[Change]) -> tuple[str, int]:
    """Count added and removed operators. A single replaced operator is described as a replacement."""
    if len(leading) == 1 and leading[0].action == "changed":
        return describe_change(leading[0]), 1
    balance = sorted(operator_balance(leading).items(), key=lambda item: (item[0][0] != "+", -item[1], item[0]))
    texts = [f"{key[0]}{count} {clipped(key[2:], LONGEST_NAME)}" for key, count in balance]
    if len(texts) > _MOST_OPERATORS:
        texts = [*texts[: _MOST_OPERATORS - 1], f"{len(texts) - _MOST_OPERATORS + 1} other operators"]
    return ", ".join(texts), len(leading)


def short_lines(
    difference: Difference, *, golden: str = "", command: str = "", is_alone: bool = True, remark: str | None = None
) -> list[str]:
    """Describe a difference in at most six lines: the headline, the first difference, the command that accepts.

    `golden` is the golden's path, empty for two graphs. `command` accepts the new graph, if a command can;
    unless `is_alone`, it accepts other graphs of the test too. A `remark` stands before it.
    """
    right = "if the new graph is right, accept it" if is_alone else "if all graphs of this test are right, accept them"
    lines = [f"{f'{printable_line(golden)} does not match' if golden else 'the graphs differ'}: {headline(difference)}"]
    if difference.edits:
        place = place_of_edit(difference.edits[0])
        lines += [f"  {clipped(place)}"] if place else []
        lines += [f"  and {clipped(describe_edit(edit))}" for edit in difference.edits[1:2]]
    for group in folded(leading_changes(difference))[: not difference.edits]:
        first, place = describe_change(group.change), describe_place(group.change)
        count = f"  x{1 + len(group.further)}" if group.is_at_one_line else ""
        lines.extend([f"  first: {first}"] if not headline(difference).startswith(first) else [])
        lines.extend([f"  {clipped(place)}{count}"] if place else [])
    more = _counted_by_class(difference)
    end = [
        *([f"  {remark}"] if remark else []),
        f"  compared at level {difference.level}{f'; {right} with' * bool(command)}",
        *([f"    {command}"] if command else []),
    ]
    lines.extend([f"  total: {more}"] if more and len(lines) + len(end) < _MOST_SHORT_LINES else [])
    return [printable(line) for line in (*lines, *end)]


def other_torch_remark(
    difference: Difference, torch_version: str, command: str = "pytest --fx-update-golden"
) -> str | None:
    """Return the next step if another release of torch recorded the golden; `command` updates the golden.

    Return None if the running torch may have written the golden, too: `aten.view` and `aten.reshape` are an edit of
    the model under each release.
    """
    release = tuple(int(number) for number in torch_version.split(".")[:2])
    if difference.omitted or _LAST_OLD < release < _FIRST_NEW:
        return None
    gone, come = (_OF_OLD_TORCH, _OF_NEW_TORCH) if release >= _FIRST_NEW else (_OF_NEW_TORCH, _OF_OLD_TORCH)

    def is_of_torch(change: Change) -> bool:
        words = {"removed": gone, "added": come}.get(change.action)
        return change.kind == "operators" and words is not None and bool(words.match(change.expected + change.obtained))

    if not difference.changes or not all(map(is_of_torch, difference.changes)):
        return None
    return (
        f"if the model is the same, torch {release[0]}.{release[1]} exports this operator otherwise: "
        f"record a variant with {command} --fx-update-variant"
    )


def full_section(
    difference: Difference,
    expected: GraphDocument,
    obtained: GraphDocument,
    *,
    golden: str,
    command: str = "",
    is_alone: bool = True,
) -> str:
    """Describe a difference in full: every change by class, the most harmful first, with the nodes around the cause.

    At most MOST_LINES lines; `golden`, `command` and `is_alone` are as in short_lines.
    """
    body = _edit_lines(difference.edits)
    for kind in reversed(CLASSES):
        body.extend(_class_lines(kind, [change for change in difference.rest if change.kind == kind]))
    body.extend(_remarks(difference))
    around = _diff_lines(difference, expected, obtained)
    title = f"{printable_line(golden)} does not match" if golden else "the graphs differ"
    head = [f"{title} at level {difference.level}", headline(difference)]
    accepted = "the new graph" if is_alone else "all new graphs of this test"
    tail = [*around, *(["", f"accept {accepted} with: {command}"] if command else [])]
    room = MOST_LINES - len(head) - len(tail)
    if len(body) > room:
        body = [*body[: room - 1], f"... and {len(body) - room + 1} more lines"]
    return printable("\n".join([*head, *body, *tail]))


def _edit_lines(edits: Sequence[Edit]) -> list[str]:
    lines = ["", f"edits ({len(edits)})"] if edits else []
    for edit in edits[:_MOST_PER_CLASS]:
        place = place_of_edit(edit)
        lines += [f"  {describe_edit(edit)}", *([f"      {clipped(place)}"] if place else [])]
    more = len(edits) - _MOST_PER_CLASS
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _class_lines(kind: str, changes: Sequence[Change]) -> list[str]:
    if not changes:
        return []
    lines = ["", f"{kind} ({len(changes)})"]
    left = _MOST_PER_CLASS
    found = folded_blocks(changes)
    for block in found:
        if block.blocks:
            lines.append(f"  block x{len(block.blocks)}: {format_paths(block.blocks)}")
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
    place = describe_place(group.change)
    if group.is_at_one_line and not is_in_block:
        return [describe_change(group.change), f"    {clipped(place)}  x{1 + len(group.further)}"]
    remarks = [place, "" if is_in_block else group.describe_other_places()]
    return [describe_change(group.change), *(f"    {clipped(remark)}" for remark in remarks if remark)]


def _remarks(difference: Difference) -> list[str]:
    remarks = []
    left_out = difference.omitted - difference.omitted_in_edits
    if left_out:
        remarks.append(f"at least {counted(left_out, 'more difference')} {'is' if left_out == 1 else 'are'} not listed")
    if difference.followed:
        remarks.append(f"values of {counted(difference.followed, 'node')} differ because of these")
    if difference.renamed and difference.level != "exact":
        remarks.append(f"{counted(difference.renamed, 'node')} renamed, which is no difference at this level")
    return ["", *remarks] if remarks else []


def _diff_lines(difference: Difference, expected: GraphDocument, obtained: GraphDocument) -> list[str]:
    """Return one hunk of the diff for each edit, at its first place, and for the likeliest causes of the rest."""
    diff = GraphDiff(expected, obtained, difference.alignment, keeps_names=difference.level == "exact")
    edits = [(_place_of(edit, difference.edits), lines_of_edit(edit)) for edit in difference.edits[:_MOST_SEARCHED]]
    rest = [group.change for group in folded(leading_changes(replace(difference, changes=difference.rest, edits=())))]
    others = [(clipped(change.where), places_of(change)) for change in rest[:_MOST_SEARCHED]]
    return [*_first_hunks(diff, edits), *_first_hunks(diff, others)]


def _first_hunks(diff: GraphDiff, places: Iterable[tuple[str, Iterable[Place]]]) -> Iterator[str]:
    """Yield the first _MOST_HUNKS hunks; a place without a changed line has none."""
    shown = 0
    for name, lines in places:
        hunk = diff.hunks(lines) if shown < _MOST_HUNKS else []
        if hunk:
            shown += 1
            yield from ("", f"around {name}", *(f"  {line}" for line in hunk))


def _place_of(edit: Edit, edits: Sequence[Edit]) -> str:
    first = edit.sites[0] if edit.sites else Site("")
    where = next((name for name in (first.where, *first.obtained, *first.expected) if name), "")
    return clipped(": ".join(filter(None, (where, edit.text if len(edits) > 1 or not where else ""))))


def lines_of_edit(edit: Edit) -> list[Place]:
    """Return the lines of the first place of an edit: its nodes, and the modules and state of its changes there."""
    if not edit.sites:
        return [place for change in edit.changes[:1] for place in places_of(change)]
    first = edit.sites[0]
    lines: list[Place] = [(0, "node", name) for name in first.expected] + [(1, "node", name) for name in first.obtained]
    for change in edit.changes:
        is_there = not first.where or f"{change.where}.".startswith(f"{first.where}.")
        if not lines or (change.subject in _IN_RECORDS and is_there):
            lines += places_of(change)
    return lines


def _counted_by_class(difference: Difference) -> str:
    """Count changes by class, if there are more changes than the first."""
    counts = Counter(change.kind for change in difference.changes)
    if len(difference.changes) + difference.omitted < 2:
        return ""
    told = [counted(counts[kind], f"{kind.removesuffix('s')} change") for kind in reversed(CLASSES) if counts[kind]]
    return ", ".join(told) + (f", and {difference.omitted} not listed" if difference.omitted else "")
