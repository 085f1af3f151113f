"""`fxgraph store`: the contents of a recording, and the removal of old ones."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from pytest_fxgraph.command.output import SAME, add_json, print_answer
from pytest_fxgraph.recordings.place import StoredFile
from pytest_fxgraph.recordings.recording import Recording
from pytest_fxgraph.recordings.store import INDEX, RecordingStore, graph_files, removals
from pytest_fxgraph.report.printable import counted, listed

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MOST_NAMED = 5

HELP = "show what pytest --fx-record has kept at a place, or remove what is old"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="runs, tests, graphs and sizes of a recording")
    prune = actions.add_parser(
        "prune",
        help="remove old recordings",
        description="Removes the indexes of processes that started longer ago, and the graphs that no other index "
        "needs. A graph of the last day stays, because a running process may need it; with an age below a day, a graph "
        "of that age stays.",
    )
    prune.add_argument("--older-than", metavar="AGE", type=_age, required=True, help="30d, 12h or 2w")
    prune.add_argument("--dry-run", action="store_true", help="print the files, and remove none")
    for each, act in ((show, _show), (prune, _prune)):
        each.add_argument("place", metavar="PLACE", help="a folder, or a URL such as s3://bucket/main")
        add_json(each)
        each.set_defaults(act=act)


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    return int(options.act(options))


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age; write a number and s, m, h, d or w, for example 30d")
    return float(int(found[1]) * _SECONDS[found[2]])


def _show(options: argparse.Namespace) -> int:
    facts = _facts(RecordingStore(options.place))
    print_answer(options, facts, _words(facts))
    return SAME


def _facts(store: RecordingStore) -> dict[str, Any]:
    recording = Recording.read(store)
    indexes = [file for part in store.parts for file in part.files(INDEX)]
    kept = {graph: file for part in store.parts for graph, file in graph_files(part).items()}
    records = [graph for test in recording.tests.values() for graph in test.graphs]
    needed = {graph.graph for graph in records}
    return {
        "place": store.place,
        "runs": [run._asdict() for run in recording.runs],
        "cut_off": recording.cut_off,
        "tests": sum(1 for test in recording.tests.values() if test.outcome),
        "disagreeing": recording.disagreeing,
        "graph_records": len(records),
        "left_out": sum(len(test.left_out) for test in recording.tests.values()),
        "graphs": len(kept),
        "graph_bytes": _size(kept.values()),
        "index_bytes": _size(indexes),
        "missing": sorted(needed - kept.keys()),
        "unneeded": len(kept.keys() - needed),
    }


def _words(facts: dict[str, Any]) -> Iterator[str]:
    yield facts["place"]
    started = [run["started"] for run in facts["runs"] if run["started"]]
    when = f", started from {_time(min(started))} to {_time(max(started))}" if started else ""
    yield f"{counted(len(facts['runs']), 'run')}{when}"
    yield f"{counted(facts['tests'], 'test')}, {counted(facts['graph_records'], 'record')} of graphs"
    size = _shown_size(facts["graph_bytes"])
    yield f"{counted(facts['graphs'], 'graph')} in {size}, and {_shown_size(facts['index_bytes'])} of indexes"
    for noun, names in (
        ("without an end, so its process was cut off", facts["cut_off"]),
        ("with other graphs or another outcome in another process", facts["disagreeing"]),
        ("missing: copy the recording again, or record the run again", facts["missing"]),
    ):
        if names:
            yield f"{len(names)} {noun}: {listed(names, _MOST_NAMED)}"
    if facts["left_out"]:
        yield f"{counted(facts['left_out'], 'graph')} could not be kept"


def _prune(options: argparse.Namespace) -> int:
    found = removals(RecordingStore(options.place), options.older_than, time.time())
    files = [file for each in found for file in each.files]
    names = [each.place.shown_path(file.path) for each in found for file in each.files]
    if not options.dry_run:
        for each in found:
            each.remove()
    data = {"is_dry_run": options.dry_run, "removed": names, "bytes": _size(files)}
    verb, sum_verb = ("would remove", "would free") if options.dry_run else ("removed", "freed")
    lines = [f"{verb} {name} ({_shown_size(file.size)})" for name, file in zip(names, files, strict=True)]
    total = f"{sum_verb} {_shown_size(_size(files))} in {counted(len(files), 'file')}"
    print_answer(options, data, [*lines, total])
    return SAME


def _size(files: Iterable[StoredFile]) -> int:
    return sum(file.size for file in files)


def _shown_size(size: int) -> str:
    if size < 1000:
        return counted(size, "byte")
    return f"{size / 1e3:.1f} kB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
