"""What a run writes into test files: the texts of inline goldens, all of a file at once, when the run ends.

Not earlier, as lines would move below the tests that are still to run. Lives in the process that writes goldens.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_fxgraph.errors import GateError, GoldenWriteError
from pytest_fxgraph.gate.inline_digests import source_digest
from pytest_fxgraph.goldens.inline_source import InlineSource, Place
from pytest_fxgraph.goldens.inline_text import read_inline
from pytest_fxgraph.goldens.store import replace_whole
from pytest_fxgraph.report.outcome import Outcome


@dataclass
class _Text:
    """What the tests of a run want of one text."""

    wanted: list[Outcome] = field(default_factory=list)
    matched: list[Outcome] = field(default_factory=list)


class InlineWrites:
    """The texts that tests want in the files below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, dict[Place, _Text]] = {}
        self.errors: list[str] = []
        self.written: list[str] = []  # "2 inline goldens of tests/test_fuse.py"
        self.refused: list[Outcome] = []  # that were wanted, and could not be written

    def take(self, outcome: Outcome) -> None:
        """Keep what a test that passed wants to be written, or a text that a test has found right."""
        if outcome.inline:
            line, column = outcome.inline["end"]
            text = self._files.setdefault(outcome.inline["file"], {}).setdefault((line, column), _Text())
            (text.matched if outcome.new_text is None else text.wanted).append(outcome)

    def write(self) -> None:
        """Write all files; what cannot be written is told in `errors`, and left as it was."""
        for file, texts in sorted(self._files.items()):
            wanted = {end: text for end, text in texts.items() if text.wanted}
            for end in [end for end, text in wanted.items() if self._is_contested(text)]:
                self.refused += wanted.pop(end).wanted
            if not wanted:
                continue
            try:
                self._write(file, wanted)
                count = f"{len(wanted)} inline golden{'s' if len(wanted) > 1 else ''}"
                self.written.append(f"{count} of {file}")
            except GateError as error:
                self.errors.append(str(error))
                self.refused += [outcome for text in wanted.values() for outcome in text.wanted]
        self._files.clear()

    def _is_contested(self, text: _Text) -> bool:
        """Tell, and keep as an error, that tests which reach one text have different graphs."""
        text.wanted.sort(key=lambda outcome: outcome.nodeid)
        first, *others = text.wanted
        other = next((each for each in others if _differ(first, each)), next(iter(text.matched), None))
        if other is None:
            return False
        by = f"{first.nodeid} and {other.nodeid}" if first.nodeid != other.nodeid else first.nodeid
        self.errors.append(
            f"cannot write the inline golden {first.golden}: it is reached with different graphs, by {by}; "
            "a text holds one: give each a call of its own, or use fx_golden, which has a file for each test"
        )
        return True

    def _write(self, file: str, texts: dict[Place, _Text]) -> None:
        path = Path(os.path.realpath(self._root / file))
        digests = {outcome.inline["digest"] for outcome in _wanted(texts.values()) if outcome.inline}
        try:
            content = path.read_bytes()
            if digests != {source_digest(content)}:
                raise GoldenWriteError(
                    f"cannot write the inline goldens of {file}: it is not as it was when its tests were collected, or "
                    "another machine has another copy; nothing was written, run the tests again"
                )
            source = InlineSource(content, file)
            new = source.rewritten({end: text.wanted[0].new_text or "" for end, text in texts.items()})
            if new != content:
                _replace_source(path, new)
        except GateError:  # which may be an OSError, too
            raise
        except OSError as error:
            raise GoldenWriteError(
                f"cannot write the inline goldens of {file}: {(error.strerror or str(error)).lower()}; nothing was "
                "changed; make room or give permission, and run the same command again"
            ) from error


def _wanted(texts: Iterable[_Text]) -> Iterable[Outcome]:
    return (outcome for text in texts for outcome in text.wanted)


def _replace_source(path: Path, content: bytes) -> None:
    """Replace a file, and see that byte code of the old one is not taken for that of the new."""
    before = path.stat()
    replace_whole(path, content)
    after = path.stat()
    # Byte code tells its source by size and second.
    if after.st_size == before.st_size and int(after.st_mtime) <= int(before.st_mtime):
        os.utime(path, (after.st_atime, int(before.st_mtime) + 1))


def _differ(one: Outcome, other: Outcome) -> bool:
    """Tell whether two texts hold different graphs, at the level of the first."""
    if one.new_text == other.new_text:
        return False
    from pytest_fxgraph.compare.levels import compare_documents

    expected, obtained = (read_inline(each.new_text or "", each.golden) for each in (one, other))
    return not compare_documents(expected, obtained, level=one.level).is_empty
