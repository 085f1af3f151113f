"""Whole pytest processes of tests that trace a model and find their golden equal."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.plugin.installation import Installation
from benchmarks.plugin.process import PytestProcess
from benchmarks.plugin.suite import EMPTY, MODELS, OTHERS, OURS, TESTS, Suite
from benchmarks.result import Table, verdict

_COLUMNS = ("model", "tool", "ms a test", "over pytest-fxgraph", "lowest and highest", "target", "reached")


def whole_processes(installation: Installation, rounds: int, against: Installation | None) -> Table:
    """Time every tool once a round, in turns; a process of empty tests is subtracted from each.

    `against` is another checkout of the plugin, as one tool more.
    """
    sides = [(EMPTY, installation), (OURS, installation)]
    if against is not None:
        sides.append((replace(OURS, tool=f"pytest-fxgraph, {against.description}"), against))
    sides += [(suite, installation) for suite in OTHERS if _is_there(suite)]
    table = Table(f"{TESTS} tests that trace a model, all matching", _COLUMNS)
    for model in MODELS:
        table.rows += _rows(model, sides, rounds)
    return table


def _rows(model: str, sides: Sequence[tuple[Suite, Installation]], rounds: int) -> Iterator[list[object]]:
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(suite, model, where)) for suite, where in sides]
        taken = [[process.cpu_seconds() / TESTS * 1e3 for process in processes] for _ in range(rounds)]
    above = [[each - empty for each in more] for empty, *more in taken]  # by round
    for place, (suite, _) in enumerate(sides[1:]):
        ratios = [each[place] / each[0] for each in above]
        ratio, interval = statistics.median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
        reached = "" if suite.target is None else verdict(ratio, suite.target)
        milliseconds = statistics.median([each[place] for each in above])
        yield [model, suite.tool, milliseconds, ratio, interval, suite.target or "", reached]


def _is_there(suite: Suite) -> bool:
    if importlib.util.find_spec(suite.module) is not None:
        return True
    print(f"{suite.tool} is left out: {suite.module} is not installed; pip install 'pytest-fxgraph[bench]'")
    return False


@contextmanager
def _process(suite: Suite, model: str, installation: Installation) -> Iterator[PytestProcess]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "test_graphs.py").write_text(suite.source(model), encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        process = PytestProcess(place, installation, suite.plugins)
        process.cpu_seconds(suite.update, must_pass=False)  # some tools fail the run that writes
        process.cpu_seconds()
        yield process
