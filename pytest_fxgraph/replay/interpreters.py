"""Facts about an interpreter that records: its releases, and the folders of a checkout that it imports from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pytest_fxgraph.errors import RecordingError

_NEEDED = ("pytest", "pytest-fxgraph", "torch")
_INSTALLED = ("site-packages", "dist-packages")
_PROBE = """
import importlib.metadata, json, sys
editable = {}
for name, module in list(sys.modules.items()):
    if name.startswith("__editable__"):  # the finder that setuptools installs
        editable.update(getattr(module, "MAPPING", {}))
releases = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
print(json.dumps([sys.executable, sys.version, releases, sys.path[1:], editable]))
"""


@dataclass(frozen=True)
class Interpreter:
    """An interpreter with the releases that are installed for it."""

    path: str  # as the user gave it
    version: str
    releases: Mapping[str, str]  # distribution to version
    search_path: Sequence[str]
    editable: Mapping[str, str]  # package to the folder or file that an editable install maps it to

    @classmethod
    def ask(cls, path: str) -> Interpreter:
        """Ask an interpreter, without importing torch. Raises RecordingError if it cannot record."""
        _, version, releases, search_path, editable = told_by(path, _PROBE)
        known = {_normal(name) for name in releases if name}
        missing = [name for name in _NEEDED if name not in known]
        if missing:
            raise RecordingError(
                f"cannot record with {path}: {', '.join(missing)} not installed there; install with "
                f"{path} -m pip install {' '.join(missing)}"
            )
        return cls(path, version, releases, search_path, editable)

    @property
    def title(self) -> str:
        """The releases that matter most, in words."""
        torch = next(version for name, version in self.releases.items() if name and _normal(name) == "torch")
        return f"Python {self.version.split()[0]}, torch {torch}"

    def import_roots(self, checkout: Path) -> list[str]:
        """Return the folders of a checkout from which its packages are imported, relative to the checkout.

        These are the places of editable installs and of PYTHONPATH, and a folder `src` with packages. A virtual
        environment within the checkout is none of them.
        """
        found = [Path(entry) for entry in self.search_path]
        found += [_root_of(name, Path(place)) for name, place in self.editable.items()]
        source = checkout / "src"
        if any(source.glob("*/*.py")) or any(source.glob("*.py")):
            found.append(source)
        roots = (_within(each, checkout) for each in found if not set(each.parts) & {*_INSTALLED})
        return list(dict.fromkeys(root.as_posix() for root in roots if root is not None))


def told_by(path: str, program: str, *arguments: str) -> Any:
    """Return the value that a program prints in its last line as JSON. Raises RecordingError if it prints none."""
    try:
        result = subprocess.run([path, "-c", program, *arguments], capture_output=True, check=False, text=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RecordingError(f"cannot record with {path}: {reason}; name an interpreter") from None
    try:
        return json.loads((result.stdout.splitlines() or [""])[-1])
    except ValueError:
        reason = (result.stderr.strip().splitlines() or ["it told nothing"])[-1]
        raise RecordingError(f"cannot record with {path}: {reason}; name an interpreter of Python") from None


def environment_for(tree: Path, checkout: Path, roots: Sequence[str]) -> dict[str, str]:
    """Return the environment in which a run in `tree`, a copy of the checkout, imports from the tree.

    PYTHONPATH precedes editable installs. Its places in the checkout become those in the tree.
    """
    given = [Path(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    places = [str(tree / root) for root in roots]
    for entry in given:
        inside = _within(entry, checkout)
        places.append(str(entry) if inside is None else str(tree / inside))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(places))}


def foreign_modules(
    modules: Mapping[str, str], tree: Path, roots: Sequence[str], others: Sequence[Path]
) -> dict[str, str]:
    """Return the modules of a run in `tree` that were not imported from there, with their files.

    A module is foreign if it lies in one of the `others`, or if a root of the tree has a package of its name.
    """
    own = {path.stem for root in roots for path in (tree / root).glob("*.py")}
    own |= {path.parent.name for root in (*roots, ".") for path in (tree / root).glob("*/__init__.py")}
    found = {}
    for name, file in modules.items():
        path = Path(file)
        if _within(path, tree) is not None and not set(path.parts) & {*_INSTALLED}:
            continue
        is_elsewhere = any(_within(path, other) is not None for other in others) and not set(path.parts) & {*_INSTALLED}
        if is_elsewhere or name in own:
            found[name] = file
    return found


def _root_of(name: str, place: Path) -> Path:
    """Return the folder to search for a package or module that an editable install maps to a place."""
    for _ in name.split("."):
        place = place.parent
    return place


def _within(path: Path, folder: Path) -> PurePath | None:
    """Return a path relative to a folder; None outside of it."""
    try:
        return PurePath(os.path.realpath(path)).relative_to(os.path.realpath(folder))
    except ValueError:
        return None


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
