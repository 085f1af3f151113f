"""Goldens of tests that were renamed: one that is missing, or new, holds the graph of one that no test asks for.

Two goldens hold the same graph if everything but the generated code and the names of intermediate values is equal to
the letter: an update keeps the golden's names, and a new golden has the names of the trace.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pytest_fxgraph.errors import GateError
from pytest_fxgraph.goldens.files import LONGEST_STEM, SUFFIX, base_path, golden_digest, golden_path, is_received
from pytest_fxgraph.goldens.layout import GoldenLayout
from pytest_fxgraph.report.outcome import Outcome


def graph_digest(text: str, level: str) -> str:
    """Return a digest that two texts of one graph share: at level exact the whole texts, otherwise without names.

    Raises GateError for a text that is no golden.
    """
    # Imported here, because a run without such goldens reads none.
    from pytest_fxgraph.document.decoding import decode
    from pytest_fxgraph.document.encoding import encode
    from pytest_fxgraph.document.model import without_code
    from pytest_fxgraph.document.node_names import rename_nodes

    document = decode(text, "a golden")
    if level == "exact":
        return golden_digest(text.encode("utf-8", "surrogatepass"))
    names = {node.name: str(place) for place, node in enumerate(document.nodes)}
    bare = encode(replace(rename_nodes(without_code(document), names), keeps_traced_names=True))
    return hashlib.sha256(bare.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class UnusedGolden:
    """A golden that no test asks for, with its variants; paths are relative to the layout's root."""

    base: PurePosixPath
    files: tuple[PurePosixPath, ...]

    def serving(self, variant: str) -> PurePosixPath:
        """Return the file that serves a version of torch. Variants for this version have `variant` in their names."""
        wanted = self.base.with_name(self.base.name.removesuffix(SUFFIX) + variant + SUFFIX)
        return wanted if wanted in self.files else self.base

    def copies(self, target: PurePosixPath) -> list[tuple[PurePosixPath, PurePosixPath]]:
        """Return each file together with the path that it has as a golden of another test."""
        stem, other = self.base.name.removesuffix(SUFFIX), target.name.removesuffix(SUFFIX)
        return [(file, target.with_name(other + file.name.removeprefix(stem))) for file in self.files]


class RenamedGoldens:
    """Finds the goldens that are left of tests that have another name now."""

    def __init__(self, layout: GoldenLayout, unused: Iterable[PurePosixPath]) -> None:
        """Take the goldens that certainly no test asks for."""
        self._layout = layout
        families: dict[PurePosixPath, list[PurePosixPath]] = {}
        for path in unused:
            if not is_received(path):
                families.setdefault(base_path(path), []).append(path)
        self._unused = [UnusedGolden(base, tuple(files)) for base, files in families.items() if base in files]
        self._digests: dict[tuple[PurePosixPath, bool], str | None] = {}

    def source_of(self, golden: PurePosixPath, outcome: Outcome) -> UnusedGolden | None:
        """Return the unused golden that holds the graph of a missing or new one, the one with the nearest name."""
        if outcome.graph_digest is None or base_path(golden) != golden:
            return None
        alike = [
            unused
            for unused in self._unused
            if self._digest(unused.serving(outcome.variant), outcome.level) == outcome.graph_digest
        ]
        return max(alike, key=lambda unused: _likeness(unused.base, golden), default=None)

    def _digest(self, path: PurePosixPath, level: str) -> str | None:
        key = (path, level == "exact")
        if key not in self._digests:
            self._digests[key] = _digest_of_file(Path(self._layout.root, path), level)
        return self._digests[key]


def _digest_of_file(path: Path, level: str) -> str | None:
    try:
        text = path.read_bytes().decode().removeprefix("\ufeff").replace("\r\n", "\n")
        return graph_digest(text, level)
    except (OSError, UnicodeDecodeError, GateError):  # the copy of a damaged golden would be another one
        return None


def _likeness(one: PurePosixPath, other: PurePosixPath) -> tuple[bool, float, str]:
    return one.parent == other.parent, difflib.SequenceMatcher(None, str(one), str(other)).ratio(), str(one)


def may_belong(golden: PurePosixPath, nodeid: str) -> bool:
    """Tell whether a test could ask for a golden: its file and the beginning of its name are the test's."""
    file, _, inside = nodeid.partition("::")
    names, bracket, params = inside.partition("[")
    *classes, function = names.split("::")
    try:
        first = golden_path(file, classes, function, params.removesuffix("]") if bracket else None)
    except GateError:
        return True
    if golden.parent.name != first.parent.name:
        return False
    own, stem = _bare_stem(first), _bare_stem(base_path(golden))
    return stem == own or stem.startswith(f"{own}.") or (len(own) >= LONGEST_STEM - 2 and stem.startswith(own))


def _bare_stem(path: PurePosixPath) -> str:
    return path.name.removesuffix(SUFFIX).partition("~")[0]
