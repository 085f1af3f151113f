"""`fxgraph review`: go through received files, and accept, reject or skip them, a cause at a time."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator

from pytest_fxgraph.command.accept import with_command
from pytest_fxgraph.command.output import DIFFERENT, FAILED, SAME, add_output, print_json, print_lines
from pytest_fxgraph.command.project import add_golden_dir, golden_layout_here
from pytest_fxgraph.command.received import (
    ReceivedGolden,
    by_file,
    clusters_of,
    decide,
    nothing_differs,
    received_in,
    received_that_match,
    shown_names,
)
from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.outline import outline_lines
from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.printable import counted, first_lines
from pytest_fxgraph.report.text import full_section

_MOST_LINES = 60  # of a picture; `d` shows all that is known
_MOST_BOXES = 40
_KEYS = {
    "a": "accept: it replaces its golden",
    "r": "reject: what was received is removed, the golden stays",
    "s": "skip: decide later",
    "g": "go through the goldens of this cause one by one",
    "d": "say in words what differs",
    "q": "quit: the rest stays as it is",
    "?": "show this help",
}

HELP = "go through what pytest --fx-received wrote: accept, reject or skip"
DESCRIPTION = (
    "Goldens that differ in the same way are shown and decided together. A decision takes effect at once, so nothing "
    "is lost by Ctrl-C. The exit status is 1 if something is left to decide. Keys: "
    + "; ".join(f"{key} {what}" for key, what in _KEYS.items())
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("patterns", metavar="GLOB", nargs="*", default=[], help="review these goldens alone")
    add_golden_dir(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    layout = golden_layout_here(options.golden_dir)
    received = received_that_match(options.patterns, layout) if options.patterns else received_in(layout)
    parts = [part for each in received for part in each.parts()]
    if options.json:  # a program decides by `fxgraph accept`
        clusters = clusters_of(parts)
        # The command of a cluster would also accept its goldens that the patterns leave out.
        print_json(clusters if options.patterns else [with_command(each, options.golden_dir) for each in clusters])
        return DIFFERENT if parts else SAME
    if not received:
        print_lines([f"nothing was received below {layout.root}; run the tests with pytest --fx-received"])
        return SAME
    review = _Review(parts, options.color)
    try:
        review.run()
    except (KeyboardInterrupt, EOFError):
        print_lines(["", "interrupted: what was decided is done, the rest stays as it is"])
    print_lines([review.summary()])
    return review.status()


class _Review:
    """The received files of one cause after the other, and the decisions."""

    def __init__(self, received: list[ReceivedGolden], color: str) -> None:
        self._color = color
        by_name = {each.name: each for each in received}
        self._waiting = deque(
            (cluster.headline, [by_name[golden] for golden in cluster.goldens]) for cluster in clusters_of(received)
        )
        self._left = len(received)
        self._counts: Counter[str] = Counter()

    def run(self) -> None:
        """Show and decide until nothing is left, or the user quits."""
        while self._waiting:
            headline, received = self._waiting.popleft()
            print_lines(self._shown(headline, received), self._color)
            key = self._decision(received)
            if key == "q":
                return
            if key == "g":
                self._waiting.extendleft((headline, [each]) for each in reversed(received))
            elif key == "s":
                self._counts["skipped"] += len(received)
            else:
                for each in by_file(received):
                    self._decide(each, accepts=key == "a")

    def summary(self) -> str:
        """Count the decisions, and the files that are left."""
        counts = [f"{count} {what}" for what, count in self._counts.items()]
        left = self._left - self._counts["skipped"] - self._counts["refused"]
        return ", ".join([*counts, *([f"{left} not looked at"] if left else [])])

    def status(self) -> int:
        """Return the exit status: failed, something left, or done."""
        if self._counts["refused"]:
            return FAILED
        return DIFFERENT if self._left else SAME

    def _decide(self, received: list[ReceivedGolden], *, accepts: bool) -> None:
        lines = decide(received, accepts=accepts)
        self._counts[("accepted" if accepts else "rejected") if lines else "refused"] += len(received)
        self._left -= len(lines)
        print_lines(lines)

    def _decision(self, received: list[ReceivedGolden]) -> str:
        """Ask until a key decides, and return it."""
        keys = [key for key in _KEYS if key != "g" or len(received) > 1]
        while True:
            print(f"[{'/'.join(keys)}] ", end="", flush=True)
            key = _read_key()
            print(key, flush=True)
            if key == "d":
                print_lines(_lines_of(received[0], _words), self._color)
            elif key in keys and key != "?":
                return key
            else:
                print_lines(f"  {each}  {_KEYS[each]}" for each in keys)

    def _shown(self, headline: str, received: list[ReceivedGolden]) -> Iterator[str]:
        yield ""
        yield f"{counted(len(received), 'golden')}: {headline}"
        yield from shown_names((each.name for each in received), "  ")
        yield ""
        yield from _picture(received[0])
        yield ""


def _picture(received: ReceivedGolden) -> list[str]:
    lines = [f"  {line}" for line in _lines_of(received, _outline)]
    return first_lines(lines, _MOST_LINES, "and {} more lines")


def _lines_of(received: ReceivedGolden, of_graph: Callable[[ReceivedGolden], Iterator[str]]) -> list[str]:
    """Return the lines of a received graph, or the rows of a table; the reason if the file cannot be read."""
    try:
        rows = received.table_lines()
        return [*of_graph(received)] if rows is None else rows
    except GateError as error:
        return [str(error)]


def _outline(received: ReceivedGolden) -> Iterator[str]:
    golden, obtained = received.documents()
    picture = picture_of(golden or obtained, obtained if golden else None, title="")
    return outline_lines(picture, picture.opened(_MOST_BOXES))


def _words(received: ReceivedGolden) -> Iterator[str]:
    golden, obtained = received.documents()
    difference = received.difference()
    if golden is None or difference is None:
        yield "there is no golden to compare it with"
    elif difference.is_empty:
        yield nothing_differs(difference)
    else:
        yield from full_section(difference, golden, obtained, golden=received.name).split("\n")


def _read_key() -> str:
    """Return the key that was pressed, else the first letter of the next line. Raises EOFError at the end of input."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()[:1].lower() or "?"
    try:
        import termios
        import tty
    except ImportError:  # Windows
        import msvcrt

        return str(msvcrt.getwch()).lower()  # type: ignore[attr-defined,unused-ignore]  # there alone
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)  # Ctrl-C interrupts, and what was typed ahead counts
        key = sys.stdin.read(1)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    if not key or key == "\x04":
        raise EOFError
    return key.lower()
