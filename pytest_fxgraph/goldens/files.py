"""The files below a golden folder: goldens, their variants for a version of torch, and received files.

A received file holds the graph that a test obtained in place of its golden. Its first comment has the digest of the
compared golden, so that a later `accept` replaces exactly this golden or nothing. Its second comment has the cause.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from pytest_fxgraph.errors import GoldenFormatError
from pytest_fxgraph.goldens.location import RECEIVED, SUFFIX

RECEIVED_SUFFIX = f".{RECEIVED}{SUFFIX}"

# Patterns are compiled at first use, because every run with the plugin imports this file.
# As decoding accepts it: a BOM, comments and blank lines may come before the line that names the format.
_BEGINNING = rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n|---[ \t]*\r?\n)*format: *\d+[ \t]*\r?\n"
_LONGEST_BEGINNING = 65536  # bytes

_HEADER = "# received by pytest --fx-received, compared with "
_NO_GOLDEN = "no golden"
_FIRST_LINE = rf"{_HEADER}(?:sha256:([0-9a-f]{{64}})|{_NO_GOLDEN})\Z"
_CAUSE = "# cause: "  # begins the second line

# Names from test ids have `@` percent-encoded, so no base file looks like a variant.
_PLATFORMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_VARIANT = r"(?:@torch-\d+\.\d+)?(?:@(?:linux|macos|windows|cuda))?\Z"
_MINOR = r"\d+\.\d+"

P = TypeVar("P", bound=PurePath)


def goldens_below(root: Path) -> Iterator[PurePosixPath]:
    """Yield everything below a folder that is named like a golden, relative to it; links to folders are not followed.

    Variants and received files are among them.
    """
    for folder, folders, files in os.walk(root):
        folders.sort()
        relative = PurePosixPath(os.path.relpath(folder, root).replace(os.sep, "/"))
        yield from (relative / name for name in sorted(files) if name.endswith(SUFFIX))


def begins_like_a_golden(path: Path) -> bool:
    """Return whether a file names its format and has nodes. Other people's YAML, and folders, are left alone."""
    try:
        # Opening a FIFO would wait for somebody who writes to it.
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            beginning = file.read(_LONGEST_BEGINNING)
    except OSError:
        return False
    named = re.match(_BEGINNING, beginning)
    return named is not None and re.search(rb"(?m)^(?:nodes|graph|cost|notes):", beginning[named.end() :]) is not None


def file_tested_by(golden: PurePosixPath, rootpath: Path) -> str | None:
    """Return the test file that a golden is named for, relative to rootdir; None for a name of no test file."""
    folder = golden.parent
    if folder == PurePosixPath("."):
        return None
    # Test files that are no Python keep their suffix, and their goldens lie in a folder of that very name.
    return str(folder) if Path(rootpath, folder).is_file() else f"{folder}.py"


class Received(NamedTuple):
    """The text that a golden would get, with the facts of the comparison."""

    text: str
    compared_with: str | None  # the digest of the golden, None if there was no golden
    cause: Mapping[str, Any] = {}  # `Outcome.cause`: how the golden was compared, headline and cluster; plain data


def received_path(golden: P) -> P:
    """Return the path of the received file beside a golden."""
    return golden.with_name(golden.name.removesuffix(SUFFIX) + RECEIVED_SUFFIX)


def golden_of_received(received: P) -> P:
    """Return the path of the golden that a received file may replace."""
    return received.with_name(received.name.removesuffix(RECEIVED_SUFFIX) + SUFFIX)


def is_received(path: PurePath) -> bool:
    """Tell a received file from a golden by its name."""
    return path.name.endswith(RECEIVED_SUFFIX)


def golden_digest(content: bytes) -> str:
    """Return the digest of a golden's content; a BOM and the line ends of Windows do not change it."""
    return hashlib.sha256(content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")).hexdigest()


def write_received(received: Received) -> str:
    """Return the text of a received file."""
    digest = received.compared_with
    cause = f"{_CAUSE}{json.dumps(received.cause, sort_keys=True)}\n" if received.cause else ""
    return f"{_HEADER}{_NO_GOLDEN if digest is None else f'sha256:{digest}'}\n{cause}{received.text}"


def read_received(text: str, origin: str) -> Received:
    """Read the text of a received file.

    Raises GoldenFormatError, naming `origin`, if its first line does not name the compared golden.
    """
    first, _, rest = text.partition("\n")
    header = re.match(_FIRST_LINE, first)
    if header is None:
        raise GoldenFormatError(
            f"cannot read {origin}: its first line does not say which golden it was compared with; "
            "it was edited, or is not from pytest --fx-received; remove it and run the test again"
        )
    second, _, text_after = rest.partition("\n")
    if not second.startswith(_CAUSE):
        return Received(rest, header[1])
    try:
        cause = json.loads(second.removeprefix(_CAUSE))
    except ValueError:
        cause = None
    if not isinstance(cause, dict):
        raise GoldenFormatError(
            f"cannot read {origin}: its second line is no cause; it was edited; remove it and run the test again"
        )
    return Received(text_after, header[1], cause)


def variant_path(base: P, torch_version: str) -> P:
    """Return the path of the variant for a version of torch such as "2.13.0+cpu"."""
    return base.with_name(base.name.removesuffix(SUFFIX) + variant_suffix(torch_version) + SUFFIX)


def variant_paths(base: P, torch_version: str, *, has_cuda: bool) -> list[P]:
    """Return where a golden may lie for the torch and the platform that run, the most specific place first.

    `@torch-2.13@cuda`, `@torch-2.13@linux`, `@torch-2.13`, `@cuda`, `@linux`, and the base; without CUDA the first is
    `@torch-2.13@linux`, and the second `@torch-2.13`.
    """
    stem, version = base.name.removesuffix(SUFFIX), variant_suffix(torch_version)
    platforms = [*(["@cuda"] if has_cuda else []), f"@{_PLATFORMS.get(sys.platform, sys.platform)}"]
    ends = [*(version + platform for platform in platforms), version, *platforms, ""]
    return [base.with_name(f"{stem}{end}{SUFFIX}") for end in ends]


def variant_suffix(torch_version: str) -> str:
    """Return how the stem of a variant ends for a version of torch: "@torch-2.13"."""
    minor = re.match(_MINOR, torch_version)
    return f"@torch-{minor[0] if minor is not None else torch_version}"


def base_path(path: P) -> P:
    """Return the golden of a variant or of a received file; a golden belongs to itself."""
    golden = golden_of_received(path) if is_received(path) else path
    return golden.with_name(re.sub(_VARIANT, "", golden.name.removesuffix(SUFFIX)) + SUFFIX)
