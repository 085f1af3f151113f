"""What the plugin costs a project that does not use it."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.plugin.installation import Installation
from benchmarks.plugin.process import PytestProcess
from benchmarks.result import Table, verdict

TARGET = 5.0  # ms
_ENTRY_POINT = "fxgraph"
_TESTS = "import pytest\n\n\n@pytest.mark.parametrize('number', range(50))\ndef test_number(number):\n    pass\n"


def start_up(installation: Installation, rounds: int) -> Table:
    """Run `pytest --co` with and without the plugin, in turns."""
    table = Table("pytest --co where no test uses the plugin", ("", "CPU ms", "quarters"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "test_numbers.py").write_text(_TESTS, encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        processes = PytestProcess(place, installation), PytestProcess(place, installation, (_ENTRY_POINT,))
        for process in processes:
            process.cpu_seconds(("--co",))  # writes byte code
        pairs = [[process.cpu_seconds(("--co",)) * 1e3 for process in processes] for _ in range(rounds)]
    for name, taken in zip(("without", "with pytest-fxgraph"), zip(*pairs, strict=True), strict=True):
        table.rows.append([name, statistics.median(taken), _quarters(taken)])
    growth = [with_it - without for without, with_it in pairs]
    reached = verdict(TARGET, statistics.median(growth))
    table.rows.append([f"growth, below {TARGET:.0f}: {reached}", statistics.median(growth), _quarters(growth)])
    return table


def _quarters(taken: list[float] | tuple[float, ...]) -> str:
    low, _, high = statistics.quantiles(taken, n=4)
    return f"{low:.1f} to {high:.1f}"
