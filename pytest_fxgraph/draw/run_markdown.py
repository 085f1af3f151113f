"""The report of a run as Markdown, for pull requests and the job summaries of GitHub, with one entry per cause."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_fxgraph.draw.builder import picture_of
from pytest_fxgraph.draw.mermaid import mermaid_for_github
from pytest_fxgraph.draw.run_page import graph_of
from pytest_fxgraph.report.change_text import clipped
from pytest_fxgraph.report.json_report import RunReport
from pytest_fxgraph.report.numeric_failure import NumericFailure
from pytest_fxgraph.report.outcome import Outcome
from pytest_fxgraph.report.printable import counted, first_lines, printable, printable_line

# In bytes; a text has at most as many characters. GitHub refuses a longer text as a whole.
MOST_OF_COMMENT = 65_536
MOST_OF_SUMMARY = 1_048_576
_ROOM = 1_500  # for the list of omitted parts
_MOST_ROWS = 50
_MOST_NAMES = 10  # goldens of one cause
_MOST_COMMANDS = 4  # of one cause: one for files, and one for each inline golden
_MOST_PICTURES = 8  # a browser draws each picture in a frame of its own
_BOXES = (25, 15)  # boxes of a picture; the first size that GitHub draws
_LONGEST_SPAN = 300
_WORDS = {"missing": "no golden yet", "error": "unreadable golden", "refused": "not written"}


# Failed goldens of one cause; the first one speaks for all.
_Cause = tuple[Outcome, ...]


@dataclass
class _Pages:
    """Blocks of Markdown up to a size, and a count of the omitted blocks by sort."""

    most: int
    lines: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add(self, block: Sequence[str], what: str) -> bool:
        """Add a block if there is room, else count it as omitted. Return whether it was added."""
        size = sum(len(line.encode("utf-8", "replace")) + 1 for line in block)
        if self.size + size > self.most - _ROOM:
            self.left_out[what] = self.left_out.get(what, 0) + 1
            return False
        self.lines += block
        self.size += size
        return True


def run_markdown(report: RunReport, most: int = MOST_OF_COMMENT) -> str:
    """Return the report of a run in at most `most` bytes. The report names its omissions.

    Goldens that differ in the same way share one entry. A golden has one entry, however many tests compared it.
    """
    causes = report.failed_by_cause()
    pages = _Pages(most)
    pages.add([f"## {report.title}: {_summary(report)}", ""], "headings")
    _add_table(pages, report, causes)
    pictures = 0
    for number, cause in enumerate(causes):
        drawn = _picture(cause[0]) if pictures < _MOST_PICTURES else []
        is_open = number == 0 and len(causes) + len(report.failures) < _MOST_NAMES
        if drawn and pages.add(_details(cause, drawn, report.noun, is_open=is_open), "picture"):
            pictures += 1
        else:
            pages.add(_details(cause, [], report.noun, is_open=is_open), "text")
    for failure in report.failures:
        said = "eager and graph differ" if failure.check == "equivalence" else html_code(failure.headline)
        pages.add(_folded(f"{html_code(failure.nodeid)}: {said}", code_block(failure.section)), "text")
    _add_rest(pages, report)
    return "\n".join([*pages.lines, *_left_out(pages.left_out, report.page_option), ""])


def _summary(report: RunReport) -> str:
    broken = sum(failure.check == "capture" for failure in report.failures)
    failed = len(report.failures) - broken
    parts = [report.summary] if report.summary else []
    parts += [f"{counted(failed, 'check')} of eager against graph failed"] if failed else []
    parts += [f"{counted(broken, 'model')} not captured whole"] if broken else []
    return ", ".join(parts) or "no golden was compared"


def _add_table(pages: _Pages, report: RunReport, causes: Sequence[_Cause]) -> None:
    rows = [_row(cause, report.commands_for(cause)) for cause in causes]
    rows += [(code_span(each.nodeid), each.subject, code_span(_plain(each)), "") for each in report.failures]
    if not rows:
        return
    shown = rows[:_MOST_ROWS] if report.accept else [row[:-1] for row in rows[:_MOST_ROWS]]
    head = (report.noun, "level", "what differs", *(["accept with"] if report.accept else []))
    while shown and not pages.add([*table(head, shown), ""], "row"):
        del shown[len(shown) // 2 :]
    pages.left_out["row"] = len(rows) - len(shown)


def _plain(failure: NumericFailure) -> str:
    return failure.headline.removeprefix("eager and graph differ").strip(" :")


def _row(cause: _Cause, commands: Mapping[str, str]) -> tuple[str, str, str, str]:
    first = cause[0]
    name = code_span(first.golden) + (f" and {len(cause) - 1} more" if len(cause) > 1 else "")
    said = _WORDS.get(first.status) or code_span(first.headline)
    return name, code_span(first.level), said, _accepting(commands)


def _accepting(commands: Mapping[str, str]) -> str:
    told = [
        f"{code_span(command, len(command))}{f' ({words})' if words else ''}" for command, words in commands.items()
    ]
    return " and ".join(first_lines(told, _MOST_COMMANDS, "{} more"))


def _details(cause: _Cause, picture: list[str], noun: str, *, is_open: bool) -> list[str]:
    """Return the text about a cause, folded unless `is_open`: the goldens, picture and words of the first."""
    first = cause[0]
    told = f"{len(cause)} {noun}s: " if len(cause) > 1 else ""
    said = _WORDS.get(first.status)
    title = f"{html_code(first.golden)}: {said}" if said else f"{told}{html_code(first.headline)}"
    names = first_lines([f"- {code_span(each.golden)}" for each in cause], _MOST_NAMES, "- and {} more")
    text = first.section or "\n".join(first.lines)
    return _folded(title, [*names, "", *picture, *code_block(text)], is_open=is_open)


def _folded(title: str, body: Sequence[str], *, is_open: bool = False) -> list[str]:
    return [f"<details{' open' if is_open else ''}><summary>{title}</summary>", "", *body, "", "</details>", ""]


def _picture(outcome: Outcome) -> list[str]:
    """Return the change and its neighbours as a flowchart, or nothing where GitHub would not draw it."""
    expected, obtained = [*(graph_of(text, outcome.golden) for text in outcome.graphs), None, None][:2]
    if expected is None or (obtained is None and len(outcome.graphs) > 1):
        return []
    if not any(document.nodes for document in (expected, obtained) if document is not None):
        return []  # kernels alone
    text = mermaid_for_github(picture_of(expected, obtained, title=""), _BOXES)
    return [] if text is None else [*code_block(text.rstrip("\n"), "mermaid"), ""]


def _add_rest(pages: _Pages, report: RunReport) -> None:
    """Add unused goldens and the texts of hooks."""
    if report.unused:
        count = len(report.unused)
        title = f"no test asked for {counted(count, 'golden')}"
        pages.add(_folded(title, [f"- {code_span(golden)}" for golden in report.unused]), "list of unused goldens")
    for section in report.sections:
        pages.add([*code_block(section), ""], "section of a hook")


def _left_out(counts: dict[str, int], page_option: str) -> Iterator[str]:
    told = [counted(count, what) for what, count in counts.items() if count]
    if told:
        yield f"Left out for lack of room: {', '.join(told)}. The page that `{page_option}` writes has everything."


# Names, docstrings and code of a model may hold anything. They become code spans, fenced blocks or escaped HTML, where
# neither Markdown nor GitHub's mentions, links and formulas have an effect.


def code_span(text: str, longest: int = _LONGEST_SPAN) -> str:
    """Return a text as code within a line, cut in the middle above `longest` characters."""
    line = clipped(printable_line(text), longest).strip()
    if not line:
        return ""
    fence = "`" * (1 + _longest_run(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def code_block(text: str, language: str = "text") -> list[str]:
    """Return a text as the lines of a fenced block. The fence is longer than any fence in the text."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return [f"{fence}{language}", *printable(text).split("\n"), fence]


def html_code(text: str) -> str:
    """Return a text as code within a line of HTML, for example a summary."""
    return f"<code>{html.escape(clipped(printable_line(text), _LONGEST_SPAN))}</code>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table. Cells are Markdown in one line; pipes may stand within code."""
    head = [*head]
    return [_table_row(head), _table_row(["---"] * len(head)), *map(_table_row, rows)]


def _table_row(cells: Iterable[str]) -> str:
    # A table splits cells before it reads code, so that pipes within code need an escape too.
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
