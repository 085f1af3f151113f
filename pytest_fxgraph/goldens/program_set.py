"""The goldens of a subject that holds several programs: a golden for each program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from pytest_fxgraph.document.spelling import plain_text
from pytest_fxgraph.errors import GateError, GoldenError, GoldenNameError
from pytest_fxgraph.goldens.files import RECEIVED_SUFFIX, SUFFIX
from pytest_fxgraph.goldens.store import GoldenStore

PROGRAM_NOTE = "program: "  # begins the note of a golden that belongs to a set

_NOTE_LINE = re.compile(rf"^  (?:{PROGRAM_NOTE}(.+)|~(\"{PROGRAM_NOTE}.+\"))$", re.MULTILINE)


def vanished_programs(
    store: GoldenStore, place_of: Callable[[str], PurePosixPath], names: Iterable[str]
) -> dict[str, PurePosixPath]:
    """Return the programs that other goldens of the set hold, with their paths; `place_of` gives a golden's path."""
    places = {place_of(name) for name in names}
    folder = next(iter(places)).parent
    found = {}
    for path in sorted((store.path(folder) if folder.parts else store.root).glob(f"*{SUFFIX}")):
        place = folder / path.name
        if place in places or path.name.endswith(RECEIVED_SUFFIX):
            continue
        try:
            note = _NOTE_LINE.search(store.read(place))
            name = None if note is None else note[1] or plain_text(note[2]).removeprefix(PROGRAM_NOTE)
            if name is not None and place_of(name) == place:
                found[name] = place
        except (GoldenError, GoldenNameError):  # of a file that is no golden of this test, somebody else will tell
            continue
    return found


def joined_error(errors: Iterable[Exception | None]) -> Exception | None:
    """Return one error for several comparisons: the only error, or an AssertionError with all messages."""
    raised = [error for error in errors if error is not None]
    if len(raised) < 2:
        return raised[0] if raised else None
    if all(isinstance(error, GateError) for error in raised):
        return type(raised[0])("\n\n".join(map(str, raised)))
    return AssertionError("\n\n".join(map(str, raised)))
