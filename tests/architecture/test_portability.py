"""What Linux forgives and other systems do not: texts without an encoding, names of files that Windows cannot have."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path, PureWindowsPath

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("fxcore", "pytest_fxgraph", "fixtures", "examples", "benchmarks")
FOLDERS = (*PROGRAMS, "tests", "golden", "docs", ".ci", ".github")
SOURCES = sorted(file for folder in PROGRAMS for file in ROOT.joinpath(folder).rglob("*.py"))
# A clone in a folder with a long name still has to fit into the 260 characters of Windows.
LONGEST_NAME = 160
DEVICES = {"con", "prn", "aux", "nul", *(f"{kind}{digit}" for kind in ("com", "lpt") for digit in range(10))}


def lines_that_leave_the_encoding_to_the_system(source):
    """Yield the lines of calls that read or write text without saying how its characters are stored."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or any(keyword.arg == "encoding" for keyword in call.keywords):
            continue
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        is_binary = any(isinstance(each, ast.Constant) and "b" in str(each.value) for each in call.args)
        is_no_text = ast.unparse(call.func) in (
            "os.open",
            "page.open",
            "archive.open",
        )  # a descriptor, a page of a browser, a zip file
        if name in ("read_text", "write_text") or (name in ("open", "fdopen") and not is_binary and not is_no_text):
            yield call.lineno


def test_calls_without_an_encoding_are_seen():
    source = "open(p)\nopen(p, 'rb')\np.read_text()\np.write_text(t, encoding='utf-8')\np.open('w')\nos.open(p, 0)"

    assert list(lines_that_leave_the_encoding_to_the_system(source)) == [1, 3, 5]


@pytest.mark.slow
def test_text_is_read_and_written_with_an_encoding():
    found = {
        f"{file.relative_to(ROOT).as_posix()}:{line}"
        for file in SOURCES
        for line in lines_that_leave_the_encoding_to_the_system(file.read_text(encoding="utf-8"))
    }

    assert len(SOURCES) > 250
    assert not found


def test_every_file_has_a_name_that_every_system_takes():
    names = [file.relative_to(ROOT).as_posix() for folder in FOLDERS for file in ROOT.joinpath(folder).rglob("*")]

    assert len(names) > 500
    for name in names:
        assert not DEVICES & {part.partition(".")[0].lower() for part in PureWindowsPath(name).parts}, name
        assert not set('<>:"|?*\\') & set(name), name
        assert not any(part.endswith((".", " ")) for part in name.split("/")), name
        assert len(name) <= LONGEST_NAME, name
    assert [name for name, count in Counter(map(str.lower, names)).items() if count > 1] == []
