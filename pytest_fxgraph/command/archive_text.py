"""The golden text of a `.pt2` or `.onnx` file, from a process that has torch."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePath

from pytest_fxgraph.document.model import MOST_BYTES
from pytest_fxgraph.errors import ArchiveError

_MOST_SECONDS = 600  # torch itself takes two, and a program of 100,000 nodes a minute
_PROGRAM = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(*sys.argv[3:5], sys.argv[5] == 'trust')"
)
_MODULE = "pytest_fxgraph.captures.archives"


def text_of_archive(name: str, read: Callable[[], bytes] | None, *, trusts: bool) -> bytes:
    """Return the program of an archive as the text of a golden. `read` gives the content of a file that git holds.

    Raises ArchiveError with the archive's name if it cannot be read, and without `trusts` if torch would execute a part
    of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"content{PurePath(name).suffix}") if read is not None else Path(name)
        if read is not None:
            path.write_bytes(read())
        log = Path(folder, "log")
        # Isolated, with this process's own path: a module in the present folder must not be taken for one of torch's.
        program = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(sys.path), _MODULE]
        with open(log, "wb") as output:
            try:
                status: int | str = subprocess.run(
                    [*program, str(path), folder, "trust" if trusts else ""],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=_MOST_SECONDS,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                status = f"timeout after {_MOST_SECONDS} seconds"
        text, error = Path(folder, "document"), Path(folder, "error")
        if error.exists():
            raise ArchiveError(error.read_text(encoding="utf-8").replace(str(path), name))
        if not text.exists():
            last = (_tail(log).strip().splitlines() or ["no output"])[-1]
            raise ArchiveError(
                f"cannot read {name}: the process that loads it by torch failed ({status}): {last}; "
                "try torch.export.load in Python"
            )
        with open(text, "rb") as file:
            return file.read(MOST_BYTES + 1)


def _tail(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(file.seek(0, 2) - 10_000, 0))
        return file.read().decode("utf-8", "replace")
