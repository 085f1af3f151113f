"""`fxgraph replay`: say in words what a change does to every graph of a suite."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_fxgraph.command.output import DIFFERENT, SAME, add_color, print_lines
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import RecordingStore
from pytest_fxgraph.replay.comparison import compare_recordings
from pytest_fxgraph.report.printable import counted
from pytest_fxgraph.report.text import full_section


def add_replay(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "replay",
        help="say what a change does to every graph of a test suite",
        description="The exit status is 0 if nothing changed, 1 if something changed, 2 if it cannot be told.",
    )
    parser.add_argument("--against", metavar="RECORDING", required=True, help="the recording to compare with")
    parser.add_argument("recording", metavar="RECORDING", help="the recording of the change")
    add_color(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    before, after = (Recording.read(RecordingStore(place)) for place in (options.against, options.recording))
    replay = compare_recordings(before, after)
    lines = [f"{counted(replay.tests, 'test')}: {counted(replay.same, 'graph')} same, {len(replay.changed)} changed"]
    for each in replay.changed:
        lines += ["", each.test]
        if each.documents is None or each.difference is None:
            lines.append("  new graph" if each.before is None else "  vanished graph")
        else:
            lines += full_section(each.difference, *each.documents, golden="the graph").split("\n")
    print_lines(lines, options.color)
    return SAME if replay.is_same else DIFFERENT
