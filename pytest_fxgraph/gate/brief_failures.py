"""How a failure that the plugin raised looks in pytest's output: the test's line and the message, on one screen.

The plugin's own frames say nothing to a user, and the errors that led to one of ours say again, at length, what its
message says. The exception itself keeps them until a report is made of it; `--full-trace` shows all of them.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_fxgraph.errors import GateError
from pytest_fxgraph.report.printable import printable_line

if TYPE_CHECKING:
    from pytest_fxgraph.report.outcome import Outcome

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OF_FXCORE = os.path.join(os.path.dirname(os.path.dirname(_OURS)), "fxcore") + os.sep
# Python's words for wrong arguments of a call.
_WRONG_CALL = r"got an unexpected keyword argument|missing \d+ required|takes \d+ positional|multiple values"
LONGEST_SUMMARY = 119


def shorten_failure(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Hide the plugin's frames and the causes of our own errors from a report; other failures stay as they are.

    A failure whose innermost frame is ours, though the error is not, is a fault of the plugin, and is shown in full.
    """
    frames = list(_frames(excinfo.tb))
    if not any(map(_is_of_plugin, frames)):
        return
    shown = [frame for frame in frames if not _is_hidden(frame)]
    is_own = _is_own(excinfo.value, frames[-1])
    if _is_hidden(frames[-1]) and not is_own:
        return
    if shown:
        # Not filtered: pytest cuts the traceback once more, and goes back to the raw one for that.
        excinfo.traceback = type(excinfo.traceback)(_linked(shown))
    if is_own:
        excinfo.value.__cause__, excinfo.value.__suppress_context__ = None, True


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _linked(entries: Sequence[TracebackType]) -> TracebackType:
    """Return a traceback of some entries of another one."""
    *before, linked = entries
    linked = TracebackType(None, linked.tb_frame, linked.tb_lasti, linked.tb_lineno)
    for entry in reversed(before):
        linked = TracebackType(linked, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return linked


def _is_of_plugin(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OURS)


def _is_hidden(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith((_OURS, _OF_FXCORE, contextlib.__file__))


def _is_own(error: BaseException, innermost: TracebackType) -> bool:
    """Return whether an error of ours addresses a user: it is of our families, our line reads `raise`, or Python
    refuses the arguments of a call.
    """
    if isinstance(error, (GateError, pytest.UsageError)) or any(
        base.__module__ == "fxcore.errors" for base in type(error).__mro__
    ):
        return True
    if not str(error) or not _is_hidden(innermost):
        return False
    line = linecache.getline(innermost.tb_frame.f_code.co_filename, innermost.tb_lineno)
    is_wrong_call = isinstance(error, TypeError) and re.search(_WRONG_CALL, str(error)) is not None
    return is_wrong_call or line.lstrip().startswith("raise ")


def summarize_failure(report: pytest.TestReport, error: BaseException, outcomes: Sequence[Outcome]) -> None:
    """Begin the line of a failure in pytest's short summary with the difference, not with the error's class.

    Failures that the plugin did not raise keep their line.
    """
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    frames = list(_frames(error.__traceback__))
    if crash is None or not any(map(_is_of_plugin, frames)):
        return
    if isinstance(error, (AssertionError, pytest.fail.Exception)) or _is_own(error, frames[-1]):
        crash.message = summary_line(str(error), outcomes) or crash.message


def summary_line(message: str, outcomes: Sequence[Outcome]) -> str:
    """Return a failure in one line of at most LONGEST_SUMMARY characters: the change, or how the message begins."""
    told = [outcome for outcome in outcomes if outcome.lines and "\n".join(outcome.lines) in message]
    line = told[0].headline if told else message.partition("\n")[0]
    if len(told) > 1:
        line += f" (and {len(told) - 1} more golden{'s' if len(told) > 2 else ''})"
    line = printable_line(line)
    return line if len(line) <= LONGEST_SUMMARY else f"{line[: LONGEST_SUMMARY - 3]}..."
