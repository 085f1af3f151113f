"""Edits as text: the words of an edit, and its places folded."""

from __future__ import annotations

from pytest_fxgraph.compare.difference import Difference, Edit
from pytest_fxgraph.report.change_text import clipped, describe_place
from pytest_fxgraph.report.numbered_paths import format_ranges
from pytest_fxgraph.report.printable import counted

_OF_A_NODE = ("replaced", "spelling", "argument", "rewired", "value")  # kinds of edits that change a node in its place


def describe_edit(edit: Edit, longest: int | None = None) -> str:
    """Return an edit with all its places in one line: `F.gelu -> nn.GELU at 12 places: blocks.0-11`.

    With `longest`, a line of more characters leaves out the names of the places; a longer edit is cut.
    """
    number, named = _places_in_words(edit)
    line = f"{edit.text}{number}{named}"
    if longest is None or len(line) <= longest:
        return line
    return f"{clipped(edit.text, longest - len(number))}{number}"


def _places_in_words(edit: Edit) -> tuple[str, str]:
    """Return the number of places, if there are several, and their names."""
    places, number = list(dict.fromkeys(site.where for site in edit.sites if site.where)), len(edit.sites)
    if edit.kind == "block" and edit.key[1:2] != ("runs",):  # the words name the blocks, but not the module around them
        places = list(dict.fromkeys(place.rpartition(".")[0] for place in places))
        number = len(places)
    if number < 2:
        is_said = not places or places[0] in edit.text or edit.kind == "throughout"
        return "", "" if is_said else f" at {places[0]}"
    return f" at {counted(number, 'place')}", f": {format_ranges(places)}" if places else ""


def edits_headline(difference: Difference, longest: int) -> str:
    """Return the first edit in one line of at most `longest` characters, with the number of the further differences."""
    first, *others = difference.edits
    more = [counted(len(others), "more edit")] if others else []
    rest = difference.unexplained
    more += [f"{rest} more" if not others else counted(rest, "other change")] if rest else []
    end = f", and {' and '.join(more)}" if more else ""
    return f"{describe_edit(first, longest - len(end))}{end}"


def place_of_edit(edit: Edit) -> str:
    """Return node, module and line of source of the first change of an edit that has them, as far as they are known."""
    changes = sorted(edit.changes, key=lambda change: not change.source)
    place = describe_place(changes[0]) if changes else ""
    return ": ".join(filter(None, (_changed_node(edit), place)))


def _changed_node(edit: Edit) -> str:
    """Return the node that an edit changes in its place; "" for several, and for a name that the edit says already."""
    names = edit.sites[0].obtained if len(edit.sites) == 1 and edit.kind in _OF_A_NODE else ()
    is_said = len(names) == 1 and (names[0] in edit.text or names[0] == edit.sites[0].where.replace(".", "_"))
    return f"%{names[0]}" if len(names) == 1 and not is_said else ""
