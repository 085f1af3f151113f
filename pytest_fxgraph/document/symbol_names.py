"""Symbols of unknown sizes in the texts of a document, and their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_fxgraph.document.literals import QUOTED

# A size that stands as an argument is quoted, other quoted texts are the user's.
_SIZE_ARGUMENT = r'torch\.Sym(?:Int|Float|Bool)\("[^"]*"\)'
PART = re.compile(rf"{_SIZE_ARGUMENT}|{QUOTED}|%\w+|[A-Za-z_][\w.]*", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
# What a note begins with that holds names of the user's, not symbols.
_NOTES_OF_NAMES = (
    *("inputs: ", "input structure: ", "output structure: "),
    *("frontend: ", "break: ", "recompile: ", "skipped: ", "fallback: "),
)


def rename_symbols(text: str, names: Mapping[str, str]) -> str:
    """Return a text with its symbols renamed; texts of the user's, in quotes, stay."""

    def renamed(found: re.Match[str]) -> str:
        part = found[0]
        if part.endswith(")"):
            kind, expression = part.split("(", 1)
            return f"{kind}({WORD.sub(lambda word: names.get(word[0], word[0]), expression)}"
        return names.get(part, part)

    return PART.sub(renamed, text) if names else text


def rename_symbols_of_note(note: str, names: Mapping[str, str]) -> str:
    """Return a note with its symbols renamed."""
    return note if note.startswith(_NOTES_OF_NAMES) else rename_symbols(note, names)
