"""What the plugin costs a project that does not use it."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.plugin.installation import Installation
from benchmarks.plugin.process import PytestProcess
from benchmarks.result import Table

TARGET = 1.02
_ENTRY_POINT = "fxgraph"
_TESTS = "import pytest\n\n\n@pytest.mark.parametrize('number', range(50))\ndef test_number(number):\n    pass\n"


def start_up(installation: Installation, rounds: int) -> Table:
    """Run 50 tests that use no fixture of ours, with and without the plugin, in turns."""
    table = Table("50 tests that do not use the plugin", ("", "CPU ms", "over without", "quarters"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "test_numbers.py").write_text(_TESTS, encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        processes = PytestProcess(place, installation), PytestProcess(place, installation, (_ENTRY_POINT,))
        for process in processes:
            process.cpu_seconds()  # writes byte code
        pairs = [[process.cpu_seconds() * 1e3 for process in processes] for _ in range(rounds)]
    ratios = [with_it / without for without, with_it in pairs]
    low, _, high = statistics.quantiles(ratios, n=4)
    without, with_it = (statistics.median(taken) for taken in zip(*pairs, strict=True))
    table.rows.append(["without", without, "", ""])
    reached = "yes" if statistics.median(ratios) <= TARGET else "**no**"
    name = f"with pytest-fxgraph, at most {TARGET}: {reached}"
    table.rows.append([name, with_it, f"{statistics.median(ratios):.3f}", f"{low:.3f} to {high:.3f}"])
    return table
