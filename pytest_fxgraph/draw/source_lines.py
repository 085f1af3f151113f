"""The lines of the model's source at which something happened, with the lines around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pytest_fxgraph.draw.templates import panel
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.outcome import Outcome

_AROUND = 3
_MOST_PLACES = 60
_MOST_NOTES = 6  # of a line
_LONGEST_FILE = 2_000_000  # bytes
_LONGEST_NOTE = 200
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+): (?P<text>.*)\Z", re.DOTALL)

Note = tuple[str, str]  # a line of source, "model.py:12: x = x + 1", and the words for it


def source_panel(notes: Iterable[Note], folder: Path) -> str:
    """Return the lines that notes name, by file, with the notes below them; "" without a known line.

    Paths are relative to `folder`. A line stands alone if its file is gone or has another text there by now.
    """
    files: dict[str, dict[int, tuple[str, dict[str, None]]]] = {}
    for place, words in notes:
        found = _PLACE.match(place)
        if found is not None and sum(map(len, files.values())) < _MOST_PLACES:
            lines = files.setdefault(found["file"], {})
            _, told = lines.setdefault(int(found["line"]), (found["text"], {}))
            told[clipped(words, _LONGEST_NOTE)] = None
    shown = [(file, [*_rows(lines, _lines_of(folder / file))]) for file, lines in files.items()]
    return panel("source", shown) if shown else ""


def notes_of(outcome: Outcome) -> Iterator[Note]:
    """Yield the lines of an outcome's changes, each with its edit, or else with its own words."""
    titles = {place: str(edit["title"]) for edit in outcome.edits for place in edit["changes"]}
    for place, change in enumerate(outcome.changes):
        if change.get("file") and change.get("line"):
            source = f"{change['file']}:{change['line']}: {change.get('text') or ''}"
            yield source, titles.get(place) or _words(change)


def _words(change: Mapping[str, Any]) -> str:
    where = change["operator"] or change["node"]
    if change["subject"] == "break":
        return f"graph break {change['action']}: {change['node']}"
    if change["field"]:
        return f"{where}: {change['field']}: {change['from'] or 'nothing'} -> {change['to'] or 'nothing'}"
    return f"{where} {change['action']}"


def _lines_of(file: Path) -> list[str]:
    try:
        if not file.is_file() or file.stat().st_size > _LONGEST_FILE:
            return []
        return file.read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return []


def _rows(
    places: Mapping[int, tuple[str, Mapping[str, None]]], lines: list[str]
) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, text and notes of each line. A row without a number stands for left-out lines."""
    known = {number for number, (text, _) in places.items() if number <= len(lines) and text in lines[number - 1]}
    near = {each for number in known for each in range(max(1, number - _AROUND), number + _AROUND + 1)}
    numbers = sorted({*places, *(each for each in near if each <= len(lines))})
    for before, number in pairwise([numbers[0], *numbers]):
        if number > before + 1:
            yield 0, "", []
        text, notes = places.get(number, ("", {}))
        told = [*notes][:_MOST_NOTES] + ([f"and {len(notes) - _MOST_NOTES} more"] if len(notes) > _MOST_NOTES else [])
        yield number, lines[number - 1] if number in near else text, told
