"""The project around the working directory: its rootdir and its golden folder, found by the rules of pytest.

pytest itself is not asked, because it would load the plugins of the project, and with them torch.
"""

from __future__ import annotations

import argparse
import configparser
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_fxgraph.choices import BESIDE
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.goldens.layout import GoldenLayout

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The same words as in pytest_fxgraph.settings, which imports pytest.
KEY, OPTION, DEFAULT = "fx_golden_dir", "--fx-golden-dir", "golden"
# pytest looks for these files in a folder, in this order; the first file with a section for pytest counts.
_FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
_ALWAYS_COUNT = _FILES[:4]
_SECTIONS = {"setup.cfg": "tool:pytest"}


def add_golden_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option `--golden-dir` to a parser."""
    parser.add_argument(
        "--golden-dir",
        metavar="DIR",
        help="where goldens lie, from here, for tests below here; beside: beside all tests below rootdir; "
        f"default: what the nearest configuration of pytest says of {KEY}, {DEFAULT} if nothing",
    )


def golden_layout_here(golden_dir: str | None = None) -> GoldenLayout:
    """Return the layout of the goldens. `golden_dir` is the user's option, relative to the working directory.

    Paths are relative to the working directory. Raises GateError if the configuration of pytest cannot be read.
    """
    if golden_dir is not None and golden_dir != BESIDE:
        return GoldenLayout(Path(), golden_dir)
    root, options = _configuration(Path.cwd())
    return GoldenLayout(Path(os.path.relpath(root)), golden_dir or _golden_dir(options))


def from_rootdir(path: Path) -> Path:
    """Return an existing path as it is. Otherwise try the path from rootdir, because pytest prints paths from there.

    Raises GateError as `golden_layout_here` does.
    """
    if path.exists() or path.is_absolute():
        return path
    from_root = Path(os.path.relpath(_configuration(Path.cwd())[0])) / path
    return from_root if from_root.exists() else path


def _configuration(here: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return rootdir and its options: the nearest file with a section for pytest, else the marks of a project."""
    folders = (here, *here.parents)
    for folder in folders:
        for file in (folder / name for name in _FILES):
            options = _options(file) if file.is_file() else None
            if options is not None:
                return folder, options
    for name in ("pyproject.toml", "setup.py"):
        for folder in folders:
            if (folder / name).is_file():
                return folder, {}
    return _folder_with_goldens(folders) or here, {}


def _folder_with_goldens(folders: Sequence[Path]) -> Path | None:
    """Return the nearest folder with goldens within one repository, for projects without a configuration."""
    for folder in folders:
        if (folder / DEFAULT).is_dir():
            return folder
        if (folder / ".git").exists():
            return None
    return None


def _options(file: Path) -> Mapping[str, Any] | None:
    """Return pytest's options in a file, None without a section for pytest."""
    try:
        if file.suffix == ".toml":
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            tables = _tables_of_pyproject(content) if file.name == "pyproject.toml" else [content.get("pytest")]
        else:
            sections = configparser.RawConfigParser(strict=False, allow_no_value=True)
            sections.read_string(file.read_text(encoding="utf-8"))
            name = _SECTIONS.get(file.name, "pytest")
            tables = [dict(sections.items(name))] if sections.has_section(name) else []
    except (OSError, ValueError, configparser.Error) as error:
        raise GateError(f"cannot read {file}, which may say where goldens lie: {error}; mend it") from None
    found = next((table for table in tables if isinstance(table, Mapping)), None)
    return {} if found is None and file.name in _ALWAYS_COUNT else found


def _tables_of_pyproject(content: Mapping[str, Any]) -> Iterator[object]:
    tool = content.get("tool")
    own = tool.get("pytest") if isinstance(tool, Mapping) else None
    if isinstance(own, Mapping) and own:
        yield own.get("ini_options", own)


def _golden_dir(options: Mapping[str, Any]) -> str:
    """Return the golden folder from the options. `addopts` precedes the ini key, as on pytest's command line."""
    added = options.get("addopts") or ""
    words = shlex.split(added) if isinstance(added, str) else [str(word) for word in added]
    for place in reversed(range(len(words))):
        option, equals, value = words[place].partition("=")
        if option == OPTION and (equals or words[place + 1 :]):
            return value if equals else words[place + 1]
    return str(options.get(KEY) or DEFAULT)
