"""The texts of inline goldens that a run writes into test files.

All texts of a file are written at the end of the run: an earlier write would move the lines of tests that still have to
run. Lives in the process that writes goldens.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pytest_fxgraph.errors import GateError, GoldenWriteError
from pytest_fxgraph.gate.inline_call import source_digest
from pytest_fxgraph.goldens.inline_source import InlineSource, Place
from pytest_fxgraph.goldens.inline_text import read_inline
from pytest_fxgraph.goldens.lock import locked
from pytest_fxgraph.goldens.store import replace_whole
from pytest_fxgraph.report.outcome import Outcome


@dataclass
class _Text:
    """The wishes of a run's tests for one text."""

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
        """Keep the text that a passed test wants to write, or the text that a test has matched."""
        if outcome.inline:
            line, column = outcome.inline["end"]
            text = self._files.setdefault(outcome.inline["file"], {}).setdefault((line, column), _Text())
            (text.matched if outcome.new_text is None else text.wanted).append(outcome)

    def write(self) -> None:
        """Write all files. A file that cannot be written stays as it was, and is an error."""
        for file, texts in sorted(self._files.items()):
            wanted = {end: text for end, text in texts.items() if text.wanted}
            for end in [end for end, text in wanted.items() if self._is_contested(text)]:
                self.refused += wanted.pop(end).wanted
            if not wanted:
                continue
            try:
                number = self._write(file, wanted)
                if number:
                    self.written.append(f"{number} inline golden{'s' if number > 1 else ''} of {file}")
            except GateError as error:
                self.errors.append(str(error))
                self.refused += [outcome for text in wanted.values() for outcome in text.wanted]
        self._files.clear()

    def _is_contested(self, text: _Text) -> bool:
        """Return whether tests with different graphs reach one text; keep this as an error."""
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

    def _write(self, file: str, texts: dict[Place, _Text]) -> int:
        """Write texts into a file and return their number. A text that another run has changed is an error."""
        path = Path(os.path.realpath(self._root / file))
        try:
            if not path.parent.is_dir():
                path.read_bytes()
            with locked(path, file):
                content = path.read_bytes()
                source = InlineSource(content, file)
                new_texts: dict[Place, str] = {}
                for end, text in texts.items():
                    found = self._place_in(source, content, end, text)
                    if found is not None:
                        new_texts[found] = text.wanted[0].new_text or ""
                new = source.rewritten(new_texts)
                if new != content:
                    _replace_source(path, new)
        except GateError:  # a GoldenWriteError is an OSError, too
            raise
        except OSError as error:
            raise GoldenWriteError(
                f"cannot write the inline goldens of {file}: {(error.strerror or str(error)).lower()}; nothing was "
                "changed; make room or give permission, and run the same command again"
            ) from error
        return len(new_texts)

    def _place_in(self, source: InlineSource, content: bytes, end: Place, text: _Text) -> Place | None:
        """Return the end of a call in the file as it is now; None, with an error, for a text that another run changed.

        Raises GoldenWriteError if the file is another program than the tests ran.
        """
        places = [outcome.inline or {} for outcome in text.wanted]
        if {place["digest"] for place in places} == {source_digest(content)}:
            return end
        if {place.get("program") for place in places} != {source.program}:
            raise GoldenWriteError(
                f"cannot write the inline goldens of {places[0]['file']}: it is not as it was when its tests were "
                "collected, or another machine has another copy; nothing was written, run the tests again"
            )
        found, present = source.call_of(places[0]["number"])
        if present in (places[0]["text"], text.wanted[0].new_text):
            return found
        self.errors.append(
            f"cannot write the inline golden {text.wanted[0].golden}: another run has changed its text since this run "
            "was compared with it; nothing was written there, look at it and run the test again"
        )
        self.refused += text.wanted
        return None


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
