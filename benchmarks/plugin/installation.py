"""The plugin as users have it: built as a wheel and installed into a folder of its own.

An editable installation is another thing to pytest, which rewrites the asserts of installed plugins alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "fxcore", "pytest_fxgraph")


@dataclass(frozen=True)
class Installation:
    """Where the measured packages lie, and what a reader of the tables has to know about them."""

    folder: Path
    description: str

    @property
    def path(self) -> tuple[str, ...]:
        """What goes onto the import path, our packages first, then the models that the tests use."""
        return str(self.folder), str(ROOT)


def checkout(folder: Path) -> Installation:
    """Return another checkout of this repository, as it is."""
    return Installation(folder, f"the checkout {folder.name}")


@contextmanager
def installed(*, as_wheel: bool) -> Iterator[Installation]:
    """Install this working tree as a wheel for a while, or take it as it is. Raises RuntimeError if that fails."""
    if not as_wheel:
        yield Installation(ROOT, "the working tree, which is not what users have")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = _build(folder)
        site = folder / "site"
        _pip("install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
        yield Installation(site, f"the installed wheel {wheel.name}")


def _build(folder: Path) -> Path:
    """Build a wheel from a copy: setuptools leaves files beside what it builds."""
    sources = folder / "sources"
    sources.mkdir()
    for source in _SOURCES:
        place = ROOT / source
        if place.is_dir():
            shutil.copytree(place, sources / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(place, sources / source)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources))
    return next(folder.glob("*.whl"))


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"cannot make the wheel that is to be measured: {done.stderr.strip()[-500:]}; "
            "install pip and setuptools, or measure the working tree with --tree"
        )
