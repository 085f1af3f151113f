"""Where the golden file of a test lies: a path made from the test's own names, the same on every system."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePosixPath, PureWindowsPath

from pytest_fxgraph.errors import GoldenNameError

SUFFIX = ".yaml"
LONGEST_STEM = 120
FOLDER_BESIDE = "golden"  # in the folder of a test file, where goldens lie beside their tests
RECEIVED = "received"  # `<stem>.received.yaml` is the file that a failed test writes beside the golden

_ENCODED = re.compile(r"[^A-Za-z0-9_-]")
_ALL_DIGITS = re.compile(r"[0-9]+\Z")
_CUT_CODE = re.compile(r"%[0-9A-F]?\Z")
# Names that open a device on Windows, whatever follows their first dot.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{kind}{digit}" for kind in ("com", "lpt") for digit in range(10))]
)


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
        raise GoldenNameError(f"cannot name a golden {name!r}: a name is a text that is not empty; choose another name")
    if ".." in re.split(r"[/\\]", name):
        raise GoldenNameError(
            f"cannot name a golden {name!r}: '..' would leave the folder of this test; choose a name without it"
        )
    if name.lower() == RECEIVED:
        raise GoldenNameError(
            f"cannot name a golden {name!r}: *.{RECEIVED}{SUFFIX} is what --fx-received writes; choose another name"
        )
    if _ALL_DIGITS.match(name):
        raise GoldenNameError(
            f"cannot name a golden {name!r}: numbers count the unnamed goldens of a test; put a letter into the name"
        )
    return name


def _means_something_else(stem: str, name: str | None) -> bool:
    """Tell whether a stem is a device on Windows, or a test called `received` looks like a received file."""
    first, _, rest = stem.partition(".")
    return first.lower() in _DEVICES or (name is None and rest.lower().endswith(RECEIVED))


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
