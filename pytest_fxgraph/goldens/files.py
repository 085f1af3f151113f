"""The files below a golden folder: goldens, their variants for a version of torch, and received files.

The path of a golden is made from the test's own names, and is the same on every system.

A received file holds the graph that a test obtained in place of its golden. Its first comment has the digest of the
compared golden, so that a later `accept` replaces exactly this golden or nothing. Its second comment has the cause.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, TypeVar

from pytest_fxgraph.errors import GoldenFormatError, GoldenNameError

SUFFIX = ".yaml"
LONGEST_STEM = 120
FOLDER_BESIDE = "golden"  # in the folder of a test file, where goldens lie beside their tests
RECEIVED = "received"  # `<stem>.received.yaml` is the file that a failed test writes beside the golden

_ENCODED = re.compile(r"[^A-Za-z0-9_-]")
_CUT_CODE = re.compile(r"%[0-9A-F]?\Z")
# Names that open a device on Windows, whatever follows their first dot.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{kind}{digit}" for kind in ("com", "lpt") for digit in range(10))]
)

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
_RANKS = r"@ranks-(\d+(?:-\d+)?(?:_\d+(?:-\d+)?)*)\Z"  # `@ranks-1-3_6` serves the ranks 1, 2, 3 and 6
_VARIANT = rf"(?:@torch-\d+\.\d+)?(?:@(?:linux|macos|windows|cuda))?(?:{_RANKS})?\Z"

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
    stem = base.name.removesuffix(SUFFIX)
    return [base.with_name(f"{stem}{end}{SUFFIX}") for end in _ends_of_variants(torch_version, has_cuda)]


@functools.lru_cache(maxsize=8)
def _ends_of_variants(torch_version: str, has_cuda: bool) -> tuple[str, ...]:
    version = variant_suffix(torch_version)
    platforms = [*(["@cuda"] if has_cuda else []), f"@{_PLATFORMS.get(sys.platform, sys.platform)}"]
    return (*(version + platform for platform in platforms), version, *platforms, "")


def variant_suffix(torch_version: str) -> str:
    """Return how the stem of a variant ends for a version of torch: "@torch-2.13"."""
    minor = re.match(r"\d+\.\d+", torch_version)
    return f"@torch-{minor[0] if minor is not None else torch_version}"


def ranks_path(golden: P, ranks: str) -> P:
    """Return the path of the variant that serves some ranks of a launch, given as "1-3, 6"."""
    return golden.with_name(f"{golden.name.removesuffix(SUFFIX)}@ranks-{ranks.replace(', ', '_')}{SUFFIX}")


def ranks_served_by(golden: PurePath) -> frozenset[int]:
    """Return the ranks that a golden's name lists; no rank for a golden that serves all."""
    found = re.search(_RANKS, golden.name.removesuffix(SUFFIX))
    spans = [] if found is None else [span.partition("-") for span in found[1].split("_")]
    return frozenset(rank for first, _, last in spans for rank in range(int(first), int(last or first) + 1))


def golden_of_all_ranks(golden: P) -> P:
    """Return the path of the golden that serves all ranks without a variant of their own."""
    return golden.with_name(re.sub(_RANKS, "", golden.name.removesuffix(SUFFIX)) + SUFFIX)


def base_path(path: P) -> P:
    """Return the golden of a variant or of a received file; a golden belongs to itself."""
    golden = golden_of_received(path) if is_received(path) else path
    if "@" not in golden.name:  # nearly always, in a tenth of the time
        return golden
    return golden.with_name(re.sub(_VARIANT, "", golden.name.removesuffix(SUFFIX)) + SUFFIX)


# The path of a test's golden.


def golden_path(
    test_file: str,
    classes: Sequence[str],
    function: str,
    params: str | None = None,
    name: str | None = None,
    *,
    position: int = 1,
    program: str | None = None,
    has_case_collision: bool = False,
    is_beside: bool = False,
) -> PurePosixPath:
    """Return the path of a golden relative to the golden folder, or to rootdir if the folder is beside the test file.

    `test_file` is relative to pytest's rootdir, with slashes. `position` counts the unnamed goldens of one test: the
    second is `.2`. `program` names one of several programs of a subject. `has_case_collision` says that another test's
    id differs from this one's in case only, so that the two would share a file on some systems. Raises GoldenNameError
    for a name that no golden may have, and for a test without a file below rootdir.
    """
    folder = _folder(test_file)
    if is_beside:  # the same file from wherever the tests are run, and with any rootdir
        folder = folder.parent / FOLDER_BESIDE / folder.name
        test_file = PurePosixPath(test_file).name
    last = _checked_name(name) if name is not None else (str(position) if position > 1 else None)
    names = [] if last is None else [last]
    if program is not None:
        names.append(_checked_name(program))
        last = ".".join(names)
    parts = [*classes, function if params is None else f"{function}-{params}", *names]
    plain = ".".join(parts)
    stem = ".".join([_ENCODED.sub(_percent, part) for part in parts])
    if stem != plain or has_case_collision or len(stem) > LONGEST_STEM or _means_something_else(stem, last):
        digest = _digest(full_id(test_file, classes, function, params, last))
        stem = f"{_CUT_CODE.sub('', stem[:LONGEST_STEM])}~{digest}"
    return folder / f"{stem}{SUFFIX}"


def full_id(
    test_file: str, classes: Sequence[str], function: str, params: str | None = None, name: str | None = None
) -> str:
    """Return the id of a golden: pytest's id of the test, and the golden's name after a dot."""
    test = "::".join([test_file, *classes, function])
    return f"{test}{'' if params is None else f'[{params}]'}{'' if name is None else f'.{name}'}"


@functools.lru_cache(maxsize=256)  # a file has many tests, and a run asks for one after the other
def _folder(test_file: str) -> PurePosixPath:
    path = PurePosixPath(test_file)
    # A drive or a backslash leaves the golden folder on Windows only, and is refused everywhere alike.
    if path.is_absolute() or PureWindowsPath(test_file).drive or ".." in re.split(r"[/\\]", test_file):
        raise GoldenNameError(
            f"cannot place the golden of a test in {test_file!r}: the file is not below rootdir, so the golden would "
            "leave the golden folder; run pytest with a --rootdir that holds the test"
        )
    if not path.name:
        raise GoldenNameError(
            "cannot place a golden: the test has no file; use assert_graph_matches_golden with a path"
        )
    return path.with_suffix("") if path.suffix == ".py" else path


def encoded_name(name: str) -> str:
    """Return a golden's name as it stands in a file name. Raises GoldenNameError for a name that no golden may have."""
    return _ENCODED.sub(_percent, _checked_name(name))


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        reason = "a name is a text that is not empty; choose another name"
    elif ".." in re.split(r"[/\\]", name):
        reason = "'..' would leave the folder of this test; choose a name without it"
    elif name.lower() == RECEIVED:
        reason = f"*.{RECEIVED}{SUFFIX} is what --fx-received writes; choose another name"
    elif name.isascii() and name.isdigit():
        reason = "numbers count the unnamed goldens of a test; put a letter into the name"
    else:
        return name
    raise GoldenNameError(f"cannot name a golden {name!r}: {reason}")


def _means_something_else(stem: str, name: str | None) -> bool:
    """Tell whether a stem is a device on Windows, or a test called `received` looks like a received file."""
    first, _, rest = stem.partition(".")
    return first.lower() in _DEVICES or (name is None and rest.lower().endswith(RECEIVED))


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
