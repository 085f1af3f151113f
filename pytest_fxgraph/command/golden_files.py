"""Golden files as the command finds and reads them."""

from __future__ import annotations

from pathlib import Path

from pytest_fxgraph.document.decoding import decode
from pytest_fxgraph.document.graph_document import GraphDocument
from pytest_fxgraph.document.location import RECEIVED, SUFFIX
from pytest_fxgraph.document.yaml_data import MOST_BYTES
from pytest_fxgraph.errors import GoldenError, GoldenMissingError


def read_golden(path: Path) -> GraphDocument:
    """Read one golden file, which may lie anywhere; what cannot be read is a GoldenError that names it."""
    try:
        with path.open("rb") as file:
            # One byte more than is allowed is enough to be refused.
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise GoldenError(f"cannot read {path}: {reason}; make it readable, or give another file") from error
    return decode(content, str(path))


def golden_paths(path: Path) -> dict[str, Path]:
    """Give the goldens below a folder by relative path, or the file itself under its name."""
    if not path.exists():
        raise _missing(path)
    if not path.is_dir():
        return {path.name: path}
    found = sorted(path.rglob(f"*{SUFFIX}"))
    return {
        file.relative_to(path).as_posix(): file
        for file in found
        if file.is_file() and not file.name.endswith(f".{RECEIVED}{SUFFIX}")
    }


def _missing(path: Path) -> GoldenMissingError:
    return GoldenMissingError(f"cannot read {path}: there is no such file or folder; check the path")
