"""What a test received in place of its golden, kept beside it until somebody accepts it.

A received file is the golden that would be, below a comment that names the digest of the golden it was compared with:
whoever accepts it later replaces exactly what was looked at, or nothing.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from pytest_fxgraph.document.location import RECEIVED, SUFFIX
from pytest_fxgraph.errors import GoldenFormatError

RECEIVED_SUFFIX = f".{RECEIVED}{SUFFIX}"

_HEADER = "# received by pytest --fx-received, compared with "
_NOTHING = "no golden"
_FIRST_LINE = re.compile(rf"{re.escape(_HEADER)}(?:sha256:([0-9a-f]{{64}})|{_NOTHING})\Z")

P = TypeVar("P", bound=PurePath)


@dataclass(frozen=True)
class Received:
    """The text that a golden would get, and the digest of the golden it was compared with, if there was one."""

    text: str
    compared_with: str | None


def received_path(golden: P) -> P:
    """Give the path of what was received, beside its golden."""
    return golden.with_name(golden.name.removesuffix(SUFFIX) + RECEIVED_SUFFIX)


def golden_of_received(received: P) -> P:
    """Give the path of the golden that a received file may replace."""
    return received.with_name(received.name.removesuffix(RECEIVED_SUFFIX) + SUFFIX)


def is_received(path: PurePath) -> bool:
    """Tell a received file from a golden by its name."""
    return path.name.endswith(RECEIVED_SUFFIX)


def golden_digest(content: bytes) -> str:
    """Give the digest of a golden's content; a BOM and the line ends of Windows do not change it."""
    return hashlib.sha256(content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")).hexdigest()


def write_received(received: Received) -> str:
    """Give the text of a received file."""
    digest = received.compared_with
    return f"{_HEADER}{_NOTHING if digest is None else f'sha256:{digest}'}\n{received.text}"


def read_received(text: str, origin: str) -> Received:
    """Read a received file's text; one that does not name what it was compared with is a GoldenFormatError."""
    first, _, rest = text.partition("\n")
    header = _FIRST_LINE.match(first)
    if header is None:
        raise GoldenFormatError(
            f"cannot read {origin}: its first line does not say which golden it was compared with; "
            "it was edited, or is not from pytest --fx-received; remove it and run the test again"
        )
    return Received(rest, header[1])
