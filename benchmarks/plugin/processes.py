"""Whole pytest processes of 200 tests that trace mobilenetv2 and find their golden equal."""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.plugin.installation import Installation
from benchmarks.plugin.process import PytestProcess
from benchmarks.plugin.suite import EMPTY, OTHERS, OURS, TESTS, Suite
from benchmarks.result import Table, verdict

_COLUMNS = ("tool", "ms a test", "over pytest-fxgraph", "target", "reached", "with start-up", "over pytest-fxgraph")


def whole_processes(installation: Installation, rounds: int) -> Table:
    """Time every tool once a round, in turns; processes of empty tests are subtracted, but in the last columns."""
    suites = [EMPTY, OURS, *(suite for suite in OTHERS if _is_there(suite))]
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(suite, installation)) for suite in suites]
        taken = [[process.cpu_seconds() for process in processes] for _ in range(rounds)]
    medians = [statistics.median(seconds) / TESTS * 1e3 for seconds in zip(*taken, strict=True)]
    table = Table(f"{TESTS} tests that trace mobilenetv2, all matching", _COLUMNS)
    empty, ours = medians[0], medians[1] - medians[0]
    for suite, whole in list(zip(suites, medians, strict=True))[1:]:
        ratio = (whole - empty) / ours
        reached = "" if suite.target is None else verdict(ratio, suite.target)
        table.rows.append([suite.tool, whole - empty, ratio, suite.target or "", reached, whole, whole / medians[1]])
    return table


def _is_there(suite: Suite) -> bool:
    if importlib.util.find_spec(suite.module) is not None:
        return True
    print(f"{suite.tool} is left out: {suite.module} is not installed; pip install 'pytest-fxgraph[bench]'")
    return False


@contextmanager
def _process(suite: Suite, installation: Installation) -> Iterator[PytestProcess]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "test_graphs.py").write_text(suite.source, encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        process = PytestProcess(place, installation, suite.plugins)
        process.cpu_seconds(suite.update, must_pass=False)  # some tools fail the run that writes
        process.cpu_seconds()
        yield process
