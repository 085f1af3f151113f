"""`fxgraph upgrade`: goldens of an older format are rewritten in today's, without running a test."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, print_lines
from pytest_fxgraph.command.project import add_golden_dir, from_rootdir, golden_layout_here
from pytest_fxgraph.document.decoding import decode, format_of
from pytest_fxgraph.document.encoding import encode
from pytest_fxgraph.document.model import FORMAT
from pytest_fxgraph.errors import GateError, GoldenError, GoldenMissingError
from pytest_fxgraph.goldens.files import (
    Received,
    begins_like_a_golden,
    golden_digest,
    goldens_below,
    is_received,
    read_received,
    received_path,
    write_received,
)
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.goldens.store import GoldenStore
from pytest_fxgraph.report.printable import printable
from pytest_fxgraph.report.progress import tracked


def add_upgrade(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "upgrade",
        help=f"rewrite goldens of older formats in format {FORMAT}",
        description="Graphs stay what they are, and no test is run; goldens of today's format are left as they are. "
        "What pytest --fx-received wrote beside a golden goes with it. The exit status is 2 if a golden is refused.",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing: read each golden, name those of an older format, and end with 1 if there are any",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        default=[],
        help="goldens, or folders of them; default: all of the project",
    )
    add_golden_dir(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    status = SAME
    given = [from_rootdir(path) for path in options.paths]
    for path in given or _places_of_project(golden_layout_here(options.golden_dir)):
        try:
            goldens = list(_goldens_at(path))
        except GateError as error:
            goldens, status = [], _refused(error)
        for golden in tracked(goldens, "read", sys.stderr):
            try:
                if options.check:
                    status = max(status, _checked(golden))
                else:
                    print_lines(f"upgraded {upgraded.as_posix()}" for upgraded in upgrade(golden))
            except GateError as error:
                status = _refused(error)
    return status


def _checked(golden: Path) -> int:
    """Read a golden, name it if it has an older format, and return the exit status."""
    text = GoldenStore(golden.parent).read(golden.name)
    if _upgraded(text, golden) == text:
        return SAME
    print_lines([f"{golden.as_posix()} has an older format than {FORMAT}; rewrite it with `fxgraph upgrade`"])
    return DIFFERENT


def _places_of_project(layout: GoldenLayout) -> list[Path]:
    """Return the golden folder, or each golden where they lie beside their tests."""
    if not layout.is_beside:
        return [layout.root]
    found = (layout.root / path for path in layout.goldens() if not is_received(path))
    return [golden for golden in found if golden.is_file() and begins_like_a_golden(golden)]


def _refused(error: GateError) -> int:
    print(f"fxgraph: {printable(str(error))}", file=sys.stderr)
    return FAILED


def _goldens_at(path: Path) -> Iterator[Path]:
    """Yield a golden, or those of a folder, variants too; what was received goes with its golden."""
    if path.is_dir():
        found = (path / relative for relative in goldens_below(path))
        goldens = (golden for golden in found if golden.is_file() and not is_received(golden))
        yield from (golden for golden in goldens if begins_like_a_golden(golden))
    elif not path.exists():
        raise GoldenMissingError(f"cannot upgrade {path}: there is no such file or folder; check the path")
    elif is_received(path):
        raise GoldenError(f"cannot upgrade {path}: it is what a test received; give its golden, and it goes with it")
    else:
        yield path


def upgrade(golden: Path) -> list[Path]:
    """Rewrite a golden, and what was received in its place, in today's format; return the files that changed.

    Raises GoldenError, and changes nothing, if one of the two is damaged or of a newer format.
    """
    store = GoldenStore(golden.parent)
    received = received_path(golden)
    text = store.read(golden.name)
    texts = {golden: _upgraded(text, golden)}
    if store.exists(received.name):
        digests = golden_digest(text.encode()), golden_digest(texts[golden].encode())
        texts[received] = _upgraded_received(store.read(received.name), received, *digests)
    # The golden comes last: a run that is killed in between can be done again.
    return [path for path in reversed(texts) if store.write(path.name, texts[path])]


def _upgraded(text: str, path: Path) -> str:
    document = decode(text, str(path))
    return text if format_of(text) == FORMAT else encode(document)


def _upgraded_received(text: str, path: Path, digest: str, upgraded_digest: str) -> str:
    """Upgrade what was received; compared with the golden as it was, it is compared with the upgraded one as well."""
    received = read_received(text, str(path))
    compared_with = upgraded_digest if received.compared_with == digest else received.compared_with
    return write_received(Received(_upgraded(received.text, path), compared_with))
